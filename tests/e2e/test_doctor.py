"""`libreyolo doctor`: what it says of a server that is well, and of what is not."""

import json
import os
import pathlib
import re
import socket
import threading
import unittest

import remote
import support

FAKETIME = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
FAKE_NVML = pathlib.Path(os.environ["LIBREYOLO_TEST_BIN_DIR"]) / "libfake_nvml.so"


class Doctor:
    def doctor(self, code, *words, **env):
        result = self.libreyolo("doctor", "--json", *words, env=env)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(result.stderr, "")
        said = json.loads(result.stdout)
        self.assertEqual(said["healthy"], code == 0)
        for check in said["checks"]:
            # Whatever is not well has a way out, and only that.
            self.assertEqual(check["health"] != "ok", bool(check["hints"]), check)
        return {check["check"]: check for check in said["checks"]}


class ServedTest(Doctor, support.ScriptedTest):
    def test_a_served_daemon(self):
        self.serve()
        checks = self.doctor(0)
        self.assertEqual(checks["server"]["text"], self.env["LIBREYOLO_SERVER"])
        for name in ("access", "versions", "clock", "jobs", "store", "store disk", "cache disk", "locks", "worker", "device"):
            self.assertEqual(checks[name]["health"], "ok", checks[name])
        self.assertIn("MiB free", checks["store disk"]["text"])
        self.assertIn(checks["driver"]["health"], ("ok", "warning"))
        self.assertNotIn("workspace", checks)
        self.assertNotIn("tls", checks)
        text = self.succeed("doctor").stdout
        self.assertIn("ok       versions: ", text)

    def test_no_server(self):
        checks = self.doctor(4)
        self.assertEqual(list(checks), ["server"])
        self.assertEqual(checks["server"]["health"], "FAILED")

    def test_no_worker(self):
        self.worker.unlink()
        self.serve()
        worker = self.doctor(3)["worker"]
        self.assertEqual(worker["health"], "FAILED")
        self.assertIn(f"{self.worker}: No such file", worker["text"])

    def test_a_worker_of_another_build(self):
        self.worker.write_text("#!/bin/sh\necho libreyolo-worker 0ther\n")
        self.serve()
        self.assertIn("is of build 0ther, libreyolod of", self.doctor(3)["worker"]["text"])

    def test_a_worker_that_does_not_run(self):
        self.worker.write_text("#!/bin/sh\necho 'libtorch_cpu.so: cannot open shared object file' >&2\nexit 127\n")
        self.serve()
        worker = self.doctor(3)["worker"]
        self.assertIn("does not run: it ended with exit 127: libtorch_cpu.so: cannot open", worker["text"])

    def test_an_unwritable_store(self):
        self.serve()
        (self.scratch / "store").rename(self.scratch / "away")
        store = self.doctor(3)["store"]
        (self.scratch / "away").rename(self.scratch / "store")
        self.assertEqual(store["health"], "FAILED")
        self.assertIn(f"{self.scratch}/store", store["text"])

    def test_folders_and_permissions(self):
        (self.scratch / "weights").mkdir()
        self.serve("--weights-dir", str(self.scratch / "weights"), "--weights-dir", "/no/such")
        (self.scratch / "store").chmod(0o777)
        found = json.loads(self.succeed("doctor", "--json").stdout)["checks"]
        weights = [check["health"] for check in found if check["check"] == "weights"]
        self.assertEqual(weights, ["ok", "warning"])
        store = next(check for check in found if check["check"] == "store")
        self.assertEqual((store["health"], store["hints"]), ("warning", [f"chmod go-w {self.scratch}/store"]))

    def test_a_measuring_job_is_left_alone(self):
        self.script("held", f"hello\nstage measuring\nwait-file {self.scratch}/go\ntrace own\nfinish\n")
        self.serve()
        job = self.succeed("profile", "infer", "--device", "cpu", "--weights", "random", "--project", "runs/held",
                           "--detach").stdout.strip()
        support.wait_until(lambda: "MEASURING" in self.succeed("jobs", "show", job).stdout, "the job")
        checks = self.doctor(0)
        self.assertEqual(checks["worker"]["text"], "not looked at while a job measures")
        (self.scratch / "go").touch()

    def test_cordoned(self):
        self.serve()
        self.succeed("daemon", "cordon")
        jobs = self.doctor(0)["jobs"]
        self.assertEqual(jobs["health"], "warning")
        self.assertIn("uncordon", jobs["hints"][0])

    def test_cupti_is_asked_of_the_worker_where_there_is_a_gpu(self):
        if not FAKE_NVML.exists():
            self.skipTest("the stand-in for NVML is not built")
        self.env["LIBREYOLO_NVML"] = str(FAKE_NVML)
        self.serve()
        checks = self.doctor(0)
        self.assertEqual(checks["driver"]["health"], "ok", checks["driver"])
        self.assertEqual(checks["cupti"]["text"], "CUPTI 130001 at /scripted")
        (self.scratch / "capture").write_text("failed no CUPTI here\nhint install it\n")
        cupti = self.doctor(3)["cupti"]
        self.assertEqual((cupti["health"], cupti["text"]), ("FAILED", "no CUPTI here"))
        self.assertEqual(cupti["hints"], ["install it", "--no-trace measures without recording what the GPU does"])

    def test_the_local_daemon_has_disk_and_workspace(self):
        # A build without the worker says so: 3.
        result = self.libreyolo("doctor", "--json", env={"LIBREYOLO_SERVER": ""})
        self.assertEqual(result.returncode, 0 if (support.BIN / "libreyolo-worker").exists() else 3, result.stdout)
        checks = {check["check"]: check for check in json.loads(result.stdout)["checks"]}
        self.assertIn(str(self.workspace.resolve()), checks["workspace"]["text"])
        self.assertIn("MiB free", checks["store disk"]["text"])
        self.succeed("daemon", "stop", env={"LIBREYOLO_SERVER": ""})


class LocalTest(Doctor, support.ClientTest):
    def test_the_users_settings_hold_for_the_local_daemon(self):
        folder = self.scratch / ".config/libreyolo"
        folder.mkdir(parents=True)
        (folder / "libreyolod.textproto").write_text("worker_all_files: true\n")
        self.assertEqual(self.doctor(0)["worker files"]["health"], "warning")
        self.succeed("daemon", "stop")
        (folder / "libreyolod.textproto").write_text("worker_all_fils: true\n")
        said = self.refuse(4, "devices")
        self.assertIn("; its log ends with: libreyolod: ", said)
        self.assertIn("libreyolod.textproto:1:", said)
        self.assertIn('the nearest is "worker_all_files"', said)
        (folder / "libreyolod.textproto").unlink()
        if "no Landlock" not in (text := self.doctor(0)["worker files"]["text"]):
            self.assertEqual(text, "workers write their jobs' results and nothing else")


class RemoteDoctorTest(Doctor, remote.RemoteTest):
    WORKER = "#!/bin/sh\nexit 1\n"

    def test_tls_and_roles(self):
        self.serve_users()
        checks = self.doctor(3, **self.as_user("root-ops"))  # its worker is a stand-in that tells no build
        self.assertRegex(checks["tls"]["text"], r"/server\.pem for 127\.0\.0\.1, localhost, until 20..-..-..: it expires soon")
        self.assertEqual(checks["access"]["text"], "as root-ops, admin")
        self.assertEqual(checks["tokens"]["health"], "ok")
        # Others learn nothing of the host's files.
        result = self.libreyolo("doctor", env=self.as_user("alice"))
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertNotIn(str(self.scratch), result.stdout)
        self.assertIn("warning  inside: ", result.stdout)
        self.assertRegex(result.stdout, r"tls: TLSv1\.3, certificate of server until 20")

    def test_a_certificate_that_has_expired(self):
        self.make_certificates()
        openssl = remote.Authority.openssl
        old = self.scratch / "old.pem"
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=old", "-keyout",
                self.scratch / "old.key", "-out", self.scratch / "old.csr")
        (self.scratch / "old.key").chmod(0o600)
        (self.scratch / "old.ext").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl("x509", "-req", "-in", self.scratch / "old.csr", "-CA", self.authority.cert, "-CAkey", self.authority.key,
                "-set_serial", 77, "-days", "-1", "-extfile", self.scratch / "old.ext", "-out", old)
        self.serve("--tls-cert", old, "--tls-key", self.scratch / "old.key", "--tokens", self.token_file)
        server = self.doctor(4, **self.as_user("alice"))["server"]
        self.assertIn("its certificate has expired", server["text"])

    def test_why_a_server_is_not_reached(self):
        self.serve_users()
        port = self.address.rsplit(":", 1)[1]
        user = self.as_user("alice")
        cases = (
            # A name that is none, before anything about TLS.
            ({**user, "LIBREYOLO_SERVER": f"no-such-host.invalid:{port}"}, 'the name "no-such-host.invalid" is not known', "getent"),
            ({**user, "LIBREYOLO_SERVER": "127.0.0.1:9"}, "nobody listens on port 9", "--listen"),
            ({**user, "LIBREYOLO_CA": str(remote.Authority(self.scratch, "stranger").cert)},
             "nobody who is trusted vouches for its certificate", "--ca FILE"),
            ({**user, "LIBREYOLO_SERVER": f"127.0.0.2:{port}"}, 'its certificate is not for "127.0.0.2"', "subjectAltName"),
        )
        if not self.address.startswith("127.0.0.1:"):
            self.fail(self.address)
        for env, text, hint in cases:
            server = self.doctor(4, **env)["server"]
            if "127.0.0.2" in env["LIBREYOLO_SERVER"] and "nobody listens" in server["text"]:
                continue  # bound to one address alone: no other name leads there
            self.assertIn(text, server["text"])
            self.assertIn(hint, " ".join(server["hints"]))

    def test_a_port_without_tls(self):
        with socket.create_server(("127.0.0.1", 0)) as plain:
            def answer():
                connection, _ = plain.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            self.make_certificates()
            threads = [threading.Thread(target=self.serve_plain, args=(plain, answer), daemon=True)]
            threads[0].start()
            server = self.doctor(4, LIBREYOLO_SERVER=f"127.0.0.1:{plain.getsockname()[1]}",
                                 LIBREYOLO_CA=str(self.authority.cert))["server"]
        self.assertIn("it does not speak TLS there", server["text"])

    @staticmethod
    def serve_plain(listener, answer):
        try:
            while True:
                answer()
        except OSError:
            pass

    def test_a_token_that_is_not_known(self):
        self.serve_users()
        checks = self.doctor(6, **self.as_user("alice", LIBREYOLO_TOKEN="wrong"))
        self.assertEqual(checks["access"]["health"], "FAILED")
        self.assertIn("does not know this token", checks["access"]["text"])

    def test_clocks_that_agree(self):
        self.serve_users()
        text = self.doctor(3, **self.as_user("root-ops"))["clock"]["text"]
        self.assertTrue(re.fullmatch("the server's is this machine's", text), text)

    @unittest.skipUnless(FAKETIME, "libfaketime is not installed")
    def test_a_clock_that_is_off(self):
        self.serve_users()
        wrong = {"LD_PRELOAD": str(FAKETIME[0]), "FAKETIME": "+1h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        clock = self.doctor(3, **self.as_user("root-ops", **wrong))["clock"]
        self.assertEqual(clock["health"], "warning")
        self.assertTrue(re.fullmatch("the server's is (1h|59m59).* behind", clock["text"]), clock["text"])
        self.assertIn("set-ntp", clock["hints"][0])


if __name__ == "__main__":
    support.main()
