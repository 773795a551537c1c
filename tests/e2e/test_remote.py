"""The served daemon as those see it who may come in, and as those who may not: over TCP with the shipped binaries."""

import gzip
import hashlib
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import unittest

import remote
import support

PROFILE = (pathlib.Path(__file__).parents[1] / "fuzz/corpus/profile_json/own-ops.json").read_text()
OK, INVALID, NOT_FOUND, DENIED, EXHAUSTED, UNIMPLEMENTED, UNAUTHENTICATED = 0, 3, 5, 7, 8, 12, 16


class StartTest(remote.RemoteTest):
    """What the daemon refuses to be."""

    def refuse_to_serve(self, *flags, listen="127.0.0.1:0"):
        result = subprocess.run([support.BIN / "libreyolod", "--listen", listen, "--store", self.scratch / "store", *flags],
                                env=self.env, capture_output=True, text=True, timeout=20)
        self.assertEqual(result.returncode, 2, result.stderr)
        return result.stderr

    def test_plain_tcp_is_refused_off_loopback(self):
        self.assertIn("plain TCP is refused", self.refuse_to_serve(listen="0.0.0.0:0"))
        self.assertIn("plain TCP is refused", self.refuse_to_serve("--tokens", self.token_file, listen="0.0.0.0:0"))

    def test_tls_needs_to_know_who_may_come_in(self):
        self.make_certificates()
        said = self.refuse_to_serve("--tls-cert", self.cert, "--tls-key", self.key, listen="0.0.0.0:0")
        self.assertIn("--tokens or --tls-client-ca", said)

    def test_secrets_that_others_can_read_are_refused(self):
        self.make_certificates()
        self.token_file.chmod(0o644)
        self.assertIn("is open to others", self.refuse_to_serve("--tokens", self.token_file))
        self.token_file.chmod(0o600)
        self.key.chmod(0o644)
        self.assertIn("is open to others", self.refuse_to_serve("--tls-cert", self.cert, "--tls-key", self.key, "--tokens",
                                                                self.token_file))

    def test_a_wrong_line_is_named_and_not_quoted(self):
        self.token_file.write_text("alice submitter my-secret-token\n")
        said = self.refuse_to_serve("--tokens", self.token_file)
        self.assertIn("line 1", said)
        self.assertNotIn("my-secret-token", said)

    def test_a_key_of_another_certificate_is_refused(self):
        self.make_certificates()
        _, other = self.authority.sign("other")
        self.assertIn("key", self.refuse_to_serve("--tls-cert", self.cert, "--tls-key", other, "--tokens", self.token_file))


class TokenTest(remote.RemoteTest):
    def test_nobody_comes_in_without_a_token_that_is_known(self):
        self.serve_users()
        self.succeed("devices", env=self.as_user("alice"))
        for name, env in (("none", self.as_user("alice", LIBREYOLO_TOKEN="")),
                          ("wrong", self.as_user("0" * 64)),
                          # The file's content is of no use to who has read it.
                          ("digest", self.as_user(hashlib.sha256(self.tokens["alice"].encode()).hexdigest()))):
            for words in (["devices"], ["jobs", "list"], ["profile", "list"], self.JOB):
                error = json.loads(self.refuse(6, *words, "--json", env=env))
                self.assertEqual(error["reason"], "UNAUTHENTICATED", name)
                self.assertTrue(error["hints"])

    def test_every_method_asks_who_calls(self):
        self.serve_users()
        proto = (pathlib.Path(__file__).parents[2] / "proto/libreyolo/profile/v1/profiler.proto").read_text()
        methods, service = [], ""
        for line in proto.splitlines():
            words = line.split()
            if line.startswith("service "):
                service = words[1]
            elif len(words) > 1 and words[0] == "rpc":
                methods.append(f"{service}/{words[1].split('(')[0]}")
        self.assertGreater(len(methods), 20)
        for method in methods:
            self.assertEqual(self.call(method)[0], UNAUTHENTICATED, method)
            self.assertEqual(self.call(method, token="x" * 64)[0], UNAUTHENTICATED, method)

    def test_the_token_may_stand_in_a_file(self):
        self.serve_users()
        mine = self.scratch / "mine"
        mine.write_text(self.tokens["alice"] + "\n")
        env = {"LIBREYOLO_SERVER": self.address}
        self.succeed("jobs", "list", "--ca", self.authority.cert, "--token-file", mine, env=env)
        mine.write_text("two words")
        self.assertIn("one word", self.refuse(2, "jobs", "list", "--ca", self.authority.cert, "--token-file", mine, env=env))
        self.refuse(2, "jobs", "list", "--token-file", self.scratch / "absent", env=env)

    def test_a_token_that_is_taken_back_counts_no_more(self):
        self.serve_users()
        self.succeed("jobs", "list", env=self.as_user("alice"))
        self.write_tokens({"bob": "submitter"})
        self.refuse(6, "jobs", "list", env=self.as_user("alice"))
        self.succeed("jobs", "list", env=self.as_user("bob"))
        # A file that cannot be used lets nobody in.
        self.token_file.write_text("nonsense\n")
        self.refuse(6, "jobs", "list", env=self.as_user("bob"))
        self.write_tokens()
        self.succeed("jobs", "list", env=self.as_user("bob"))

    def test_tokens_count_on_loopback_and_sockets_too(self):
        self.serve("--tokens", self.token_file)
        env = {"LIBREYOLO_SERVER": self.address}
        self.refuse(6, "jobs", "list", env=env)
        self.succeed("jobs", "list", env={**env, "LIBREYOLO_TOKEN": self.tokens["vera"]})


class TlsTest(remote.RemoteTest):
    def test_tls_1_3_and_nothing_older(self):
        self.serve_users()
        with self.connect_tls() as connection:
            self.assertEqual(connection.version(), "TLSv1.3")
        with self.assertRaises(ssl.SSLError):
            self.connect_tls(maximum_version=ssl.TLSVersion.TLSv1_2)

    def test_plain_callers_get_nowhere(self):
        self.serve_users()
        host, port = self.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            call = remote.RawCall(connection)
            call.headers("JobService/ListJobs", self.tokens["alice"])
            call.message(b"")
            self.assertIsNone(call.status()[0])
        # The client takes loopback without an authority for plain.
        self.refuse(4, "jobs", "list", env={"LIBREYOLO_SERVER": self.address, "LIBREYOLO_TOKEN": self.tokens["alice"]})

    def test_a_server_that_nobody_vouches_for_gets_no_token(self):
        self.serve_users()
        other = remote.Authority(self.scratch, "stranger")
        error = self.refuse(4, "jobs", "list", env=self.as_user("alice", LIBREYOLO_CA=str(other.cert)))
        self.assertIn("--ca FILE", error)

    def test_a_certificate_for_another_name_is_refused(self):
        self.make_certificates()
        self.cert, self.key = self.authority.sign("elsewhere", san="DNS:elsewhere.example")
        self.serve("--tls-cert", self.cert, "--tls-key", self.key, "--tokens", self.token_file)
        self.refuse(4, "jobs", "list", env=self.as_user("alice"))

    def serial(self):
        with self.connect_tls() as connection:
            return int(connection.getpeercert()["serialNumber"], 16)

    def test_certificates_are_read_again(self):
        self.serve_users()
        before = self.serial()
        cert, key = self.authority.sign("server", stem="renewed")
        key.replace(self.key)
        cert.replace(self.cert)
        support.wait_until(lambda: self.serial() != before, "the new certificate", 30)
        self.succeed("jobs", "list", env=self.as_user("alice"))

    def test_a_renewal_of_no_use_leaves_the_old_one_in_force(self):
        self.serve_users()
        before = self.serial()
        whole, old_key = self.cert.read_bytes(), self.key.read_bytes()
        cert, key = self.authority.sign("server", stem="renewed")
        for spoil in (lambda: self.cert.write_bytes(b""), lambda: self.key.write_bytes(b""),
                      lambda: self.cert.write_bytes(b"no certificate"), lambda: self.cert.write_bytes(cert.read_bytes())):
            log = []
            spoil()
            support.wait_until(lambda: log.append(self.daemon_log()) or "certificate not renewed" in "".join(log), "the refusal")
            self.assertEqual(self.serial(), before)
            self.cert.write_bytes(whole)
            self.key.write_bytes(old_key)
            support.wait_until(lambda: log.append(self.daemon_log()) or "certificate renewed" in "".join(log), "the old pair")
        self.succeed("jobs", "list", env=self.as_user("alice"))
        key.replace(self.key)
        cert.replace(self.cert)
        support.wait_until(lambda: self.serial() != before, "the new certificate", 30)

    def test_client_certificates_are_a_way_in(self):
        self.make_certificates()
        self.serve("--tls-cert", self.cert, "--tls-key", self.key, "--tls-client-ca", self.authority.cert)
        env = {"LIBREYOLO_SERVER": self.address, "LIBREYOLO_CA": str(self.authority.cert)}
        self.refuse(4, "jobs", "list", env=env)
        cert, key = self.authority.sign("carol")
        job = self.succeed(*self.JOB, "--cert", cert, "--key", key, env=env).stdout.strip()
        shown = json.loads(self.succeed("jobs", "show", job, "--json", "--cert", cert, "--key", key, env=env).stdout)
        self.assertEqual(shown["principal"], "carol")
        # Somebody else's authority.
        cert, key = remote.Authority(self.scratch, "stranger").sign("carol", stem="false-carol")
        self.refuse(4, "jobs", "list", "--cert", cert, "--key", key, env=env)
        # A name that could lead out of the workspaces.
        cert, key = self.authority.sign("..", stem="dots")
        self.refuse(6, "jobs", "list", "--cert", cert, "--key", key, env=env)

    def test_certificates_and_tokens_side_by_side(self):
        with self.token_file.open("a") as file:
            file.write("carol viewer cert\n")
        self.make_certificates()
        self.serve("--tls-cert", self.cert, "--tls-key", self.key, "--tls-client-ca", self.authority.cert, "--tokens",
                   self.token_file)
        self.succeed("jobs", "list", env=self.as_user("alice"))
        env = {"LIBREYOLO_SERVER": self.address, "LIBREYOLO_CA": str(self.authority.cert)}
        cert, key = self.authority.sign("carol")
        self.succeed("jobs", "list", "--cert", cert, "--key", key, env=env)
        self.refuse(6, *self.JOB, "--cert", cert, "--key", key, env=env)
        cert, key = self.authority.sign("dave")
        self.refuse(6, "jobs", "list", "--cert", cert, "--key", key, env=env)


class RoleTest(remote.RemoteTest):
    def reason(self, code, *words, user):
        return json.loads(self.refuse(code, *words, "--json", env=self.as_user(user)))["reason"]

    def test_viewers_change_nothing(self):
        self.serve_users()
        self.assertEqual(self.reason(6, *self.JOB, user="vera"), "PERMISSION_DENIED")
        self.assertEqual(self.reason(6, "jobs", "cancel", "x", user="vera"), "PERMISSION_DENIED")
        (self.workspace / "own.json").write_text("{}")
        self.assertEqual(self.reason(6, "profile", "summary", "./own.json", user="vera"), "PERMISSION_DENIED")
        self.succeed("devices", env=self.as_user("vera"))

    def test_only_admins_cordon_and_drain(self):
        self.serve_users()
        for command in ("cordon", "uncordon", "drain"):
            self.assertEqual(self.reason(6, "daemon", command, user="alice"), "PERMISSION_DENIED")

    def test_jobs_are_their_owners(self):
        self.serve_users()
        job = self.submit("alice")
        for words in (["jobs", "show"], ["jobs", "watch"], ["jobs", "cancel"], ["jobs", "logs"]):
            self.assertEqual(self.reason(2, *words, job, user="bob"), "JOB_NOT_FOUND", words)
        self.assertEqual(json.loads(self.succeed("jobs", "list", "--json", env=self.as_user("bob")).stdout)["jobs"], [])
        for user in ("alice", "root-ops"):
            jobs = json.loads(self.succeed("jobs", "list", "--json", env=self.as_user(user)).stdout)["jobs"]
            self.assertEqual([(each["id"], each["principal"]) for each in jobs], [(job, "alice")])
        self.succeed("jobs", "cancel", job, env=self.as_user("root-ops"))

    def test_workspaces_are_their_owners(self):
        self.serve_users()
        secret = self.scratch / "store/workspaces/alice/runs/profile/infer"
        secret.mkdir(parents=True)
        (secret / "profile.json").write_text(PROFILE)
        path = "runs/profile/infer/profile.json"
        self.succeed("profile", "get", path, "img_per_s", env=self.as_user("alice"))
        self.refuse(2, "profile", "get", path, "img_per_s", env=self.as_user("bob"))
        # Named outright: GetProfile{name, workspace}.
        named = remote.text_field(1, path) + remote.text_field(2, "alice")
        self.assertEqual(self.call("ProfileService/GetProfile", named, self.tokens["bob"])[0], DENIED)
        self.assertEqual(self.call("ProfileService/GetProfile", named, self.tokens["root-ops"])[0], OK)
        # CreateJob{spec{workspace}}.
        spec = remote.text_field(1, remote.text_field(1, "alice"))
        self.assertEqual(self.call("JobService/CreateJob", spec, self.tokens["bob"])[0], DENIED)

    def test_a_digest_gives_nobody_anothers_upload(self):
        self.serve_users()
        upload = self.workspace / "mine.json"
        upload.write_text(PROFILE)
        self.succeed("profile", "get", "./mine.json", "img_per_s", env=self.as_user("alice"))
        digest = hashlib.sha256(upload.read_bytes()).hexdigest()
        asked = remote.text_field(1, digest)
        self.assertNotIn(digest.encode(), self.call("ProfileService/FindMissingBlobs", asked, self.tokens["alice"])[1])
        self.assertIn(digest.encode(), self.call("ProfileService/FindMissingBlobs", asked, self.tokens["bob"])[1])
        # GetSummary{trace{blob_digest}}; the field's number is read from the proto file.
        number = blob_digest_field()
        read = remote.text_field(1, remote.text_field(number, digest))
        self.assertEqual(self.call("ProfileService/GetSummary", read, self.tokens["bob"])[0], NOT_FOUND)

    def test_changes_are_written_down(self):
        daemon = self.serve_users()
        job = self.submit("alice")
        self.refuse(2, "jobs", "cancel", job, env=self.as_user("bob"))
        self.succeed("jobs", "cancel", job, env=self.as_user("alice"))
        self.refuse(6, "daemon", "cordon", env=self.as_user("vera"))
        log = self.daemon_log()
        for line in (f"audit change=create_job target={job} principal=alice role=submitter",
                     f"audit change=cancel_job target={job} principal=bob role=submitter",
                     f"audit change=cancel_job target={job} principal=alice role=submitter"):
            self.assertIn(line, log)
        self.assertIn("result=JOB_NOT_FOUND", log)
        self.assertIn("access refused", log)
        for token in self.tokens.values():
            self.assertNotIn(token, log)
        self.assertIsNone(daemon.poll())


def blob_digest_field():
    folder = pathlib.Path(__file__).parents[2] / "proto/libreyolo/profile/v1"
    for file in folder.glob("*.proto"):
        for line in file.read_text().splitlines():
            words = line.split()
            if words[:2] == ["string", "blob_digest"]:
                return int(words[3].rstrip(";"))
    raise AssertionError("no blob_digest")


class QuotaTest(remote.RemoteTest):
    def test_queued_jobs_have_a_limit_for_each(self):
        self.serve_users("--max-queued-per-user", 2)
        for _ in range(3):  # one runs, two wait
            self.submit("alice")
        error = json.loads(self.refuse(5, *self.JOB, "--json", env=self.as_user("alice")))
        self.assertEqual(error["reason"], "QUOTA_EXCEEDED")
        self.submit("bob")

    def test_turns_go_round(self):
        self.serve_users()
        alices = [self.submit("alice") for _ in range(3)]
        bobs = self.submit("bob")
        shown = lambda user, job: json.loads(self.succeed("jobs", "show", job, "--json", env=self.as_user(user)).stdout)
        self.assertEqual(shown("bob", bobs)["queue_position"], 0)
        self.assertEqual([shown("alice", job)["queue_position"] for job in alices[1:]], [1, 2])
        self.assertIn("2 jobs are ahead", shown("alice", alices[2])["waiting_for"])

    def test_uploads_have_limits(self):
        length = len(PROFILE.encode())
        self.serve_users("--max-upload", length + 1000, "--max-stored-per-user", 3 * length)

        def upload(more, code):
            file = self.workspace / f"{more}.json"
            file.write_text(PROFILE + " " * more)
            result = self.libreyolo("profile", "get", f"./{file.name}", "img_per_s", "--json", env=self.as_user("alice"))
            self.assertEqual(result.returncode, code, result.stderr)
            return result

        upload(0, 0)
        self.assertIn("LIMIT_EXCEEDED", upload(1001, 2).stderr)
        upload(800, 0)
        self.assertIn("QUOTA_EXCEEDED", upload(801, 5).stderr)

    def serve_scripted(self, log_bytes, *flags):
        """A daemon whose workers say so much in their log and measure what a script says."""
        scripts = self.scratch / "scripts"
        scripts.mkdir()
        (scripts / "default").write_text(support.ScriptedTest.GOOD)
        scripted = pathlib.Path(os.environ["LIBREYOLO_TEST_BIN_DIR"]) / "scripted_worker"
        self.worker.write_text(f"#!/bin/sh\nhead -c {log_bytes} /dev/zero >&2\nexec {scripted} {scripts}\n")
        self.serve_users("--worker-read", scripted, "--worker-read", scripts, *flags)

    def run_job(self, user, project, *words):
        """The id of a job that has ended."""
        job = self.submit(user, "--project", f"runs/{project}", *words)
        show = lambda: json.loads(self.succeed("jobs", "show", job, "--json", env=self.as_user(user)).stdout)
        support.wait_until(lambda: show()["state"] == "SUCCEEDED", f"the end of {job}")
        return job

    def listed(self, user):
        return [job["id"] for job in json.loads(self.succeed("jobs", "list", "--json", env=self.as_user(user)).stdout)["jobs"]]

    def logs(self):
        return {path.stem for path in (self.scratch / "store/job_logs").iterdir()}

    def test_records_of_ended_jobs_have_a_limit_and_results_stay(self):
        self.serve_scripted(40_000, "--max-job-bytes-per-user", 150_000)
        bobs = [self.run_job("bob", f"b{i}") for i in range(3)]
        alices = [self.run_job("alice", f"a{i}") for i in range(5)]
        support.wait_until(lambda: self.listed("alice") == alices[:1:-1], "the oldest to go")
        support.wait_until(lambda: self.logs() == {*bobs, *alices[2:]}, "their logs to go")
        self.assertEqual(self.listed("bob"), bobs[::-1])
        self.assertIn("job records removed principal=alice", self.daemon_log())
        alice = self.as_user("alice")
        error = json.loads(self.refuse(2, "jobs", "show", alices[0], "--json", env=alice))
        self.assertEqual(error["reason"], "JOB_NOT_FOUND")
        # What it measured is there as before, by its place.
        profiles = json.loads(self.succeed("profile", "list", "--json", env=alice).stdout)["profiles"]
        self.assertEqual({each["job"] for each in profiles}, set(alices))
        place = "runs/a0/infer/profile.json"
        self.assertIn(place, [each["path"] for each in profiles])
        self.succeed("profile", "get", place, "img_per_s", env=alice)
        self.succeed("profile", "pin", place, env=alice)
        self.succeed("profile", "fetch", "runs/a0/infer", env=alice)
        self.assertTrue((self.workspace / place).exists())
        # A lower limit holds from the start on, and what a kill left of logs goes.
        self.daemon.kill()
        self.daemon.wait()
        (self.scratch / "store/job_logs/20261130T080000-0000aaaa.log").write_text("left")
        self.serve("--tls-cert", self.cert, "--tls-key", self.key, "--tokens", self.token_file, "--max-job-bytes-per-user",
                   50_000)
        support.wait_until(lambda: self.logs() == {bobs[-1], alices[-1]}, "all but the newest to go")
        self.assertEqual(self.listed("bob"), bobs[-1:])
        self.assertEqual(self.listed("alice"), alices[-1:])
        self.succeed("profile", "get", place, "img_per_s", env=self.as_user("alice"))

    def test_large_specs_count_for_that_limit(self):
        pictures = self.workspace / "pictures"
        pictures.mkdir()
        for i in range(1000):
            (pictures / f"{i:0>200}.jpg").write_bytes(b"one content")
        self.serve_scripted(0, "--max-job-bytes-per-user", 700_000)
        jobs = [self.run_job("alice", "large", "./pictures") for _ in range(4)]
        support.wait_until(lambda: self.listed("alice") == [jobs[3], jobs[2]], "the oldest to go")


class CordonTest(remote.RemoteTest):
    def test_a_cordoned_server_finishes_and_takes_nothing_new(self):
        self.serve_users()
        job = self.submit("alice")
        self.succeed("daemon", "cordon", env=self.as_user("root-ops"))
        error = json.loads(self.refuse(4, *self.JOB, "--json", env=self.as_user("alice")))
        self.assertEqual(error["reason"], "CORDONED")
        self.succeed("jobs", "show", job, env=self.as_user("alice"))
        # Over a restart, too.
        self.daemon.kill()
        self.daemon.wait()
        self.serve("--tls-cert", self.cert, "--tls-key", self.key, "--tokens", self.token_file)
        self.refuse(4, *self.JOB, env=self.as_user("alice"))
        self.succeed("daemon", "uncordon", env=self.as_user("root-ops"))
        self.submit("alice")

    def test_a_drained_server_ends(self):
        self.serve_users()
        self.succeed("daemon", "drain", env=self.as_user("root-ops"))
        self.assertEqual(self.daemon.wait(timeout=30), 0)


class HostileTest(remote.RemoteTest):
    def test_paths_stay_in_the_workspace(self):
        self.serve_users()
        mine = self.scratch / "store/workspaces/alice/runs"
        mine.mkdir(parents=True)
        theirs = self.scratch / "store/workspaces/bob"
        theirs.mkdir(parents=True)
        for folder in (mine, theirs):
            (folder / "profile.json").write_text(PROFILE)
        os.symlink(theirs / "profile.json", mine / "link.json")
        os.symlink(theirs, mine / "folder")
        alice = self.tokens["alice"]
        ask = lambda name: self.call("ProfileService/GetProfile", remote.text_field(1, name), alice)
        self.assertEqual(ask("runs/profile.json")[0], OK)
        (mine / "a").mkdir()
        os.symlink(theirs / "profile.json", mine / "a/profile.json")
        for name in ("../bob/profile.json", "runs/../../bob/profile.json", "runs/a", "runs/a/profile.json", "/etc/passwd", "runs/profile.json\0.txt",
                     "runs/link.json", "runs/folder/profile.json", "runs/..\\../x", "..", "./../bob/profile.json",
                     str(theirs / "profile.json")):
            status, said = ask(name)
            self.assertIn(status, (INVALID, NOT_FOUND), name)
            self.assertNotIn(b"img_per_s", said)
        # Signs that only look like dots and slashes name nothing.
        self.assertEqual(ask("\u2025/bob/profile.json")[0], NOT_FOUND)
        self.assertEqual(ask("\uff0e\uff0e/bob/profile.json")[0], NOT_FOUND)
        (theirs / "profile_summary.json").write_text("{}")
        os.symlink(theirs / "profile_summary.json", mine / "profile_summary.json")
        linked = remote.text_field(1, "runs/profile.json") + remote.text_field(3, "profile_summary.json")
        self.assertIn(self.call("ProfileService/DownloadProfile", linked, alice)[0], (INVALID, NOT_FOUND))
        # DownloadProfile{path, file}.
        for file in ("../profile.json", "/etc/passwd", "..", "profile.json\0"):
            wanted = remote.text_field(1, "runs/profile.json") + remote.text_field(3, file)
            self.assertIn(self.call("ProfileService/DownloadProfile", wanted, alice)[0], (INVALID, NOT_FOUND), file)
        # CreateJob{spec{project, infer{}}}.
        for project in ("../bob", "/tmp/x", "a\0b", "runs/folder/new"):
            spec = remote.text_field(1, remote.text_field(2, project) + remote.text_field(3, "cpu") +
                                     remote.text_field(20, b""))
            self.assertEqual(self.call("JobService/CreateJob", spec, alice)[0], INVALID, project)
        # A file of the host by its path: GetSummary{trace{local_path}} is for a local daemon's owner.
        self.refuse(2, "profile", "summary", "./nothing.json", env=self.as_user("alice"))

    def test_large_messages_end_the_call_and_nothing_else(self):
        daemon = self.serve_users()
        with self.connect_tls() as connection:
            call = remote.RawCall(connection)
            call.headers("JobService/CreateJob", self.tokens["alice"])
            size = 500 << 20
            self.assertLess(call.pour(size), size)
            # A status, or a connection that was cut before one could be read.
            self.assertNotEqual(call.status()[0], OK)
        self.assertLess(resident_kib(daemon.pid), 200 * 1024)
        self.succeed("jobs", "list", env=self.as_user("alice"))

    def test_large_headers_end_the_call(self):
        self.serve_users()
        with self.connect_tls() as connection:
            call = remote.RawCall(connection)
            call.headers("JobService/ListJobs", self.tokens["alice"], extra=[("x-big", "a" * 40000)])
            call.message(b"")
            self.assertEqual(call.status()[0], EXHAUSTED)
        self.succeed("jobs", "list", env=self.as_user("alice"))

    def test_compressed_messages_are_refused(self):
        daemon = self.serve_users()
        bomb = gzip.compress(b"\0" * (300 << 20), 1)[:1 << 20]
        for token in (None, self.tokens["alice"]):
            with self.connect_tls() as connection:
                call = remote.RawCall(connection)
                call.headers("JobService/CreateJob", token, extra=[("grpc-encoding", "gzip")])
                call.message(bomb[:60000], compressed=True)
                self.assertEqual(call.status()[0], UNIMPLEMENTED)
        self.assertLess(resident_kib(daemon.pid), 200 * 1024)

    def test_slow_and_silent_callers_hold_nobody_up(self):
        self.serve_users()
        host, port = self.address.rsplit(":", 1)
        silent = [socket.create_connection((host, int(port)), timeout=20) for _ in range(100)]
        half = self.connect_tls()
        remote.RawCall(half).headers("JobService/CreateJob", self.tokens["alice"])  # and never a message
        self.succeed("jobs", "list", env=self.as_user("alice"))
        for connection in [*silent, half]:
            connection.close()

    def test_noise_is_no_message(self):
        self.serve_users()
        for payload in (b"\xff" * 1000, os.urandom(1000), b"\x0a\xff\xff\xff\xff\x0f"):
            self.assertNotEqual(self.call("JobService/CreateJob", payload, self.tokens["alice"])[0], OK)
        with self.connect_tls() as connection:
            connection.sendall(os.urandom(4096))
        self.succeed("jobs", "list", env=self.as_user("alice"))

    def test_another_account_reaches_neither_socket_nor_store(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be somebody else")
        self.serve(listen=f"unix:{self.scratch}/served.sock")
        self.scratch.chmod(0o755)
        client = self.scratch / "libreyolo"
        shutil.copy(support.BIN / "libreyolo", client)
        other = {"user": 65534, "group": 65534, "extra_groups": []}
        result = subprocess.run([client, "jobs", "list", "--server", f"unix:{self.scratch}/served.sock"],
                                env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60, cwd="/", **other)
        self.assertEqual(result.returncode, 4, result.stderr)
        listing = subprocess.run(["ls", self.scratch / "store"], capture_output=True, text=True, timeout=20, **other)
        self.assertIn("Permission denied", listing.stderr)


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


class WorkerTest(remote.RemoteTest):
    """What a worker is left with, told by one that looks around."""

    WORKER = """#!/bin/sh
exec 2>&1 >@.new
cat /proc/self/status
echo "core $(ulimit -c)"
echo "files $(ulimit -n)"
grep "Max processes" /proc/self/limits
for fd in /proc/$$/fd/*; do echo "fd ${fd##*/} $(readlink $fd)"; done
env | sed 's/^/env /'
mv @.new @
exec sleep 600
"""

    def test_workers_start_with_little(self):
        told = self.told.parents[1] / "alice/told"
        self.worker.write_text(self.WORKER.replace("@", str(told)))
        self.env["HF_TOKEN"] = "hub-secret"
        self.env["LIBREYOLO_TOKEN"] = "daemon-secret"
        self.serve_users()
        del self.env["HF_TOKEN"]
        del self.env["LIBREYOLO_TOKEN"]
        self.submit("alice")
        support.wait_until(told.exists, "the worker")
        text = told.read_text()
        self.assertRegex(text, r"NoNewPrivs:\s+1")
        self.assertIn("core 0\n", text)
        files = int(next(line.split()[1] for line in text.splitlines() if line.startswith("files ")))
        self.assertLessEqual(files, 16384)
        self.assertRegex(text, r"Max processes\s+16384 ")
        # Three standard ones, the link, two locks of the device; what else is there the shell opened itself.
        targets = [line.split(maxsplit=2)[2] for line in text.splitlines() if line.startswith("fd ") and line.count(" ") > 1]
        self.assertEqual(len([each for each in targets if each.startswith("socket:")]), 1, targets)
        for target in targets:
            self.assertNotIn(f"{self.scratch}/store/", target)
            self.assertNotIn("anon_inode", target)
        for secret in ("hub-secret", "daemon-secret", *self.tokens.values(), str(self.key)):
            self.assertNotIn(secret, text)


class ContextTest(remote.RemoteTest):
    def test_a_context_stands_in_for_the_flags(self):
        self.serve_users()
        mine = self.scratch / "mine"
        mine.write_text(self.tokens["alice"])
        self.succeed("context", "add", "box", "--server", self.address, "--ca", self.authority.cert, "--token-file", mine)
        self.succeed("context", "use", "box")
        job = self.succeed(*self.JOB).stdout.strip()
        self.assertIn(job, self.succeed("jobs", "list").stdout)
        kept = self.scratch / ".config/libreyolo/contexts.json"
        self.assertEqual(kept.stat().st_mode & 0o777, 0o600)
        self.assertNotIn(self.tokens["alice"], kept.read_text())
        listed = json.loads(self.succeed("context", "list", "--json").stdout)["contexts"]
        self.assertEqual([(each["name"], each["in_use"]) for each in listed], [("box", True)])
        # A server that is named gets nothing of the context's.
        self.refuse(4, "jobs", "list", "--server", self.address)
        self.refuse(2, "context", "use", "absent")
        self.succeed("context", "use", "local")
        self.assertEqual(self.succeed("jobs", "list").stdout, "no jobs\n")
        self.succeed("context", "remove", "box")
        self.refuse(2, "context", "use", "box")
        self.refuse(2, "context", "add", "local", "--server", "box")
        self.refuse(2, "context", "add", "nowhere")


class SshTest(remote.RemoteTest):
    SSH = """#!/bin/sh
echo "$@" >> @log
while [ "$1" != "--" ]; do shift; done
shift; host=$1; shift
[ "$host" = away ] && { echo "ssh: cannot find away" >&2; exit 255; }
exec sh -c "$*"
"""

    def setUp(self):
        super().setUp()
        self.calls = self.scratch / "ssh.log"
        tools = self.scratch / "tools"
        tools.mkdir()
        (tools / "ssh").write_text(self.SSH.replace("@log", str(self.calls)))
        (tools / "ssh").chmod(0o755)
        os.symlink(support.BIN / "libreyolo", tools / "libreyolo")
        self.env["PATH"] = f"{tools}:{self.env['PATH']}"
        self.socket = self.scratch / "served.sock"

    def test_commands_go_through_ssh(self):
        self.serve(listen=f"unix:{self.socket}")
        env = {"LIBREYOLO_SERVER": f"ssh://me@gpu-box:2222{self.socket}"}
        job = self.succeed(*self.JOB, env=env).stdout.strip()
        self.assertIn(job, self.succeed("jobs", "list", env=env).stdout)
        self.assertIn(f"-T -p 2222 -- me@gpu-box libreyolo dial-stdio {self.socket}", self.calls.read_text())
        self.assertEqual(list((self.scratch / "run/libreyolo").glob("ssh-*")), [])

    def test_a_connection_that_breaks_is_made_again(self):
        self.serve(listen=f"unix:{self.socket}")
        env = {"LIBREYOLO_SERVER": f"ssh://gpu-box{self.socket}"}
        job = self.succeed(*self.JOB, env=env).stdout.strip()
        watch = subprocess.Popen([support.BIN / "libreyolo", "jobs", "watch", job], env={**self.env, **env},
                                 cwd=self.workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            dialers = lambda: [int(path.parent.name) for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                               if read_quietly(path).startswith(b"libreyolo\0dial-stdio\0" + str(self.socket).encode())]
            # Broken before the first answer it would be a server that is not reached.
            self.assertTrue(watch.stderr.readline(), "the job's state")
            first = dialers()
            self.assertTrue(first)
            for pid in first:
                os.kill(pid, 9)
            support.wait_until(lambda: set(dialers()) - set(first), "ssh again")
            self.succeed("jobs", "cancel", job, env={"LIBREYOLO_SERVER": f"unix:{self.socket}"})
            _, said = watch.communicate(timeout=60)
            self.assertIn("cancelled", said)
        finally:
            watch.kill()
            watch.communicate()

    def test_what_ssh_says_reaches_the_user(self):
        error = self.refuse(4, "jobs", "list", "--server", "ssh://away")
        self.assertIn("cannot find away", error)

    def test_words_that_ssh_or_a_shell_could_misread_are_refused(self):
        for address in ("ssh://-oProxyCommand=id", "ssh://me@-x", "ssh://", "ssh://host/a;id", "ssh://host/$(id)",
                        "ssh://a b", "ssh://host:0", "ssh://host:99999", "ssh://x;id@host"):
            self.refuse(2, "jobs", "list", "--server", address)
        self.assertFalse(self.calls.exists())


def read_quietly(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    unittest.main()
