"""What a served daemon lets its workers and its callers take, and what they are told once they took it."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest

import remote
import support

ALICE = 54321
# A program, and where it finds its library; a worker reads it only when it is told to.
PYTHON, PYTHON_READ = os.path.realpath(sys.executable), ("--worker-read", sys.base_prefix)


class WorkerLimitsTest(remote.RemoteTest):
    """Workers that take too much. Each ends as one failed job that says of what, and the next job runs."""

    def failed(self, script, *flags, interpreter="/bin/sh"):
        """The error of the job whose worker is `script`."""
        self.worker.write_text(f"#!{interpreter}\n{script}\n")
        self.serve(*flags)
        env = {"LIBREYOLO_SERVER": self.address}
        job = self.succeed(*self.JOB, env=env).stdout.strip()
        show = lambda: json.loads(self.succeed("jobs", "show", job, "--json", env=env).stdout)
        support.wait_until(lambda: show()["state"] == "FAILED", "the end of the job")
        self.worker.write_text(self.WORKER)
        after = self.succeed(*self.JOB, env=env).stdout.strip()
        support.wait_until(lambda: json.loads(self.succeed("jobs", "show", after, "--json", env=env).stdout)["state"] ==
                           "STARTING", "the next job")
        return show()["error"]

    def test_memory_that_the_kernel_refuses(self):
        error = self.failed("import sys\nheld = bytearray(400 << 20)", "--worker-memory", 128 << 20,
                            *PYTHON_READ, interpreter=PYTHON)
        self.assertEqual(error["reason"], "OUT_OF_MEMORY", error)
        self.assertIn("0.12 GiB", error["message"])
        self.assertIn("--worker-memory", " ".join(error["hints"]))

    def test_memory_that_the_kernel_does_not_count(self):
        """Shared pages are nobody's data: the daemon sees them."""
        error = self.failed("import mmap, time\nheld = mmap.mmap(-1, 400 << 20)\nfor at in range(0, 400 << 20, 4096):\n"
                            "    held[at] = 1\ntime.sleep(600)", "--worker-memory", 128 << 20,
                            *PYTHON_READ, interpreter=PYTHON)
        self.assertEqual(error["reason"], "OUT_OF_MEMORY", error)
        self.assertIn("the server allows 0.12 GiB", error["message"])

    def test_memory_that_is_in_files(self):
        """Written to, never mapped."""
        error = self.failed("import os, time\nheld = os.memfd_create('x')\nfor i in range(400):\n    os.write(held, bytes(1 << 20))\n"
                            "time.sleep(600)", "--worker-memory", 128 << 20, *PYTHON_READ, interpreter=PYTHON)
        self.assertEqual(error["reason"], "OUT_OF_MEMORY", error)
        self.assertIn("the server allows 0.12 GiB", error["message"])

    def test_cpu_time(self):
        error = self.failed("while :; do :; done", "--worker-cpu-time", 1)
        self.assertEqual(error["reason"], "WORKER_LIMIT", error)
        self.assertIn("1 s of CPU time", error["message"])

    def test_the_size_of_files(self):
        error = self.failed(f"exec head -c 1000000 /dev/zero >{self.told}", "--worker-file-size", 65536)
        self.assertEqual(error["reason"], "WORKER_LIMIT", error)
        self.assertIn("too large", error["message"])
        self.assertEqual(self.told.stat().st_size, 65536)

    def test_the_size_of_its_log(self):
        error = self.failed("head -c 80000000 /dev/zero >&2; exec sleep 600")
        self.assertEqual(error["reason"], "WORKER_LIMIT", error)
        self.assertIn("64 MiB to its log", error["message"])

    def test_open_files(self):
        self.failed(f"ulimit -n >{self.told}; exit 1", "--worker-files", 77)
        self.assertEqual(self.told.read_text(), "77\n")

    def test_a_worker_is_the_first_to_go_when_memory_runs_out(self):
        self.failed(f"cat /proc/self/oom_score_adj >{self.told}; exit 1")
        self.assertEqual(self.told.read_text(), "500\n")

    def test_processes(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be somebody else")
        # The kernel holds root to nothing: the daemon runs as another account.
        self.scratch.chmod(0o755)
        home = self.scratch / "alice"
        home.mkdir()
        for name in ("libreyolod", "libreyolo"):
            shutil.copy(support.BIN / name, home)
        worker = home / "worker"
        worker.write_text("#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9 10; do sleep 600 & done\nexec sleep 600\n")
        worker.chmod(0o755)
        os.chown(home, ALICE, ALICE)
        other = {"user": ALICE, "group": ALICE, "extra_groups": [], "cwd": "/",
                 "env": {"PATH": os.environ["PATH"], "HOME": str(home), "LIBREYOLO_SERVER": f"unix:{home}/s"}}
        daemon = subprocess.Popen([home / "libreyolod", "--listen", f"unix:{home}/s", "--store", home / "store", "--worker",
                                   worker, "--lock-dir", home, "--worker-processes", "4"], stderr=subprocess.PIPE,
                                  text=True, **other)
        self.daemons.append(daemon)
        support.wait_until(lambda: (home / "s").exists(), "the daemon")
        run = lambda *words: subprocess.run([home / "libreyolo", *words], capture_output=True, text=True, timeout=60, **other)
        support.wait_until(lambda: run("jobs", "list").returncode == 0, "its answer")
        job = run(*map(str, self.JOB)).stdout.strip()
        show = lambda: json.loads(run("jobs", "show", job, "--json").stdout)
        support.wait_until(lambda: show()["state"] == "FAILED", "the end of the job")
        self.assertRegex(run("jobs", "logs", job).stdout, "(?i)fork")


class PatternTest(remote.RemoteTest):
    """Regular expressions that would take the server's time or memory."""

    PROFILE = (pathlib.Path(__file__).parents[1] / "fuzz/corpus/profile_json/own-ops.json").read_text()

    def test_patterns_that_are_large_or_unfold(self):
        self.serve_users()
        folder = self.scratch / "store/workspaces/alice/runs"
        folder.mkdir(parents=True)
        (folder / "profile.json").write_text(self.PROFILE)
        grep = lambda code, pattern: self.refuse(code, "profile", "kernels", "runs/profile.json", "--grep", pattern, "--json",
                                                 env=self.as_user("alice"))
        self.assertEqual(json.loads(grep(2, "a" * 5000))["reason"], "ARGUMENT_INVALID")
        self.assertEqual(json.loads(grep(2, "((a{1000}){1000}){1000}"))["reason"], "ARGUMENT_INVALID")
        # What takes others for ever is linear here.
        self.libreyolo("profile", "kernels", "runs/profile.json", "--grep", "(a*)*(a|aa)+$", env=self.as_user("alice"),
                       timeout=20)


class TurnsTest(remote.RemoteTest):
    """Reads that take long, of one user among others. A read is made slow at its fault point, for longer than the test."""

    PROFILE = PatternTest.PROFILE
    CALLS = 6

    def place(self, user, name):
        folder = self.scratch / f"store/workspaces/{user}/runs"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(self.PROFILE)

    def read(self, user, name):
        """GetSummary{trace{name}}, whose answer nobody waits for here."""
        connection = self.connect_tls()
        self.addCleanup(connection.close)
        call = remote.RawCall(connection)
        call.headers("ProfileService/GetSummary", self.tokens[user])
        call.message(remote.text_field(1, remote.text_field(1, f"runs/{name}")))

    def reads_under_way(self):
        """The files whose reads have begun, in that order."""
        self.said += self.daemon_log()
        return re.findall(r'fault point point="?read (\w+)\.json', self.said)

    def test_one_users_long_reads_leave_room_for_others(self):
        self.said = ""
        self.env["LIBREYOLOD_FAULTS"] = "read *=log; read slow.json=delay:200000"
        self.serve_users("--max-calls-per-user", self.CALLS)
        self.place("alice", "slow.json")
        self.place("bob", "quick.json")
        for _ in range(self.CALLS):
            self.read("alice", "slow.json")

        def is_full():
            if "BUSY" in self.libreyolo("jobs", "list", "--json", env=self.as_user("alice")).stderr:
                return True
            # The question itself may have taken the place of one of the reads, which was refused then.
            self.read("alice", "slow.json")
            return False

        support.wait_until(is_full, "alice's calls")
        support.wait_until(self.reads_under_way, "the first read")
        self.succeed("profile", "get", "runs/quick.json", "img_per_s", env=self.as_user("bob"), timeout=60)
        # His was served while one of hers was under way and the others waited, though they had come before.
        self.assertEqual(self.reads_under_way(), ["slow", "quick"])


class DeadlineTest(remote.RemoteTest):
    """Connections whose other end is there and does nothing."""

    def ends(self, connection):
        connection.settimeout(20)
        try:
            while connection.recv(65536):
                pass
        except ConnectionError:
            pass

    def connect(self):
        host, port = self.address.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), timeout=20)
        self.addCleanup(connection.close)
        return connection

    def test_a_connection_that_is_not_set_up(self):
        self.serve_users("--handshake-timeout", 1)
        silent, half = self.connect(), self.connect()
        half.sendall(b"\x16\x03\x01\x02\x00\x01")  # the first bytes of a ClientHello
        without_http = self.connect_tls()
        for connection in (silent, half, without_http):
            self.ends(connection)  # else it times out
        self.succeed("jobs", "list", env=self.as_user("alice"))

    def test_a_caller_that_gives_no_sign_of_life(self):
        self.serve("--tokens", self.token_file, "--keepalive", 1)
        connection = self.connect()
        call = remote.RawCall(connection)
        # A call that stays open; nothing here ever answers a ping.
        call.headers("ProfileService/UploadBlob", self.tokens["alice"])
        self.ends(connection)
        self.succeed("jobs", "list", env={"LIBREYOLO_SERVER": self.address, "LIBREYOLO_TOKEN": self.tokens["alice"]})

    def answering(self, connection):
        """Reads to the end and acknowledges pings, so that nothing but the server's limits ends the connection; how
        many seconds that took."""
        start, got = time.monotonic(), b""
        connection.settimeout(60)
        try:
            while piece := connection.recv(65536):
                got += piece
                while len(got) >= 9 and len(got) >= 9 + int.from_bytes(got[:3], "big"):
                    size, kind, flags = int.from_bytes(got[:3], "big"), got[3], got[4]
                    payload, got = got[9:9 + size], got[9 + size:]
                    if kind == 6 and not flags & 1:
                        connection.sendall(remote.RawCall.frame(6, 1, 0, payload))
        except ConnectionError:
            pass
        return time.monotonic() - start

    def test_a_connection_without_calls(self):
        self.serve_users("--connection-idle", 1)
        connection = self.connect_tls()
        remote.RawCall(connection)
        self.answering(connection)  # else it times out
        self.succeed("jobs", "list", env=self.as_user("alice"))

    def test_a_connection_that_is_old(self):
        """One with a call that never ends. Whoever watches a job goes on over another connection, without a word."""
        self.serve_users("--connection-age", 2)
        connection = self.connect_tls()
        call = remote.RawCall(connection)
        call.headers("ProfileService/UploadBlob", self.tokens["alice"])
        watch = subprocess.Popen([support.BIN / "libreyolo", *self.JOB[:-1]], env={**self.env, **self.as_user("alice")},
                                 cwd=self.workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.answering(connection)
        time.sleep(4)  # two more such ages
        self.assertIsNone(watch.poll())
        listed = json.loads(self.succeed("jobs", "list", "--json", env=self.as_user("alice")).stdout)["jobs"]
        self.succeed("jobs", "cancel", listed[0]["id"], env=self.as_user("alice"))
        said = watch.communicate(timeout=60)
        self.assertEqual(watch.returncode, 3, said)
        self.assertNotIn("connection", said[1])


if __name__ == "__main__":
    unittest.main()
