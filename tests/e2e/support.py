"""What the end-to-end tests share: a scratch folder, the shipped binaries, a client run in an environment of its own."""

import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["LIBREYOLO_BIN_DIR"])
SHARED = pathlib.Path(os.environ["LIBREYOLO_SHARED_DIR"])
WEIGHTS = SHARED / "fixtures/yolo9/ckpt/yolo9t_nc2_views.pt"

F_SETPIPE_SZ = 1031  # named in fcntl from Python 3.10 on


def wait_until(condition, what, seconds=60):
    """Polls; the tests wait for things that take as long as the machine makes them."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.02)


class ClientTest(unittest.TestCase):
    """A test with a workspace, and everything that clients and daemons write kept below one scratch folder."""

    def setUp(self):
        # Short: socket paths have a limit.
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="ly-"))
        self.workspace = self.scratch / "work"
        self.workspace.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.scratch),
            "XDG_RUNTIME_DIR": str(self.scratch / "run"),
            "XDG_STATE_HOME": str(self.scratch / "state"),
            "XDG_CACHE_HOME": str(self.scratch / "cache"),
            "OMP_NUM_THREADS": "1",
        }
        (self.scratch / "run").mkdir(mode=0o700)
        self.daemons = []

    def tearDown(self):
        self.libreyolo("daemon", "stop")
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
            daemon.stderr.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def libreyolo(self, *words, stdin="", timeout=240, env=None, cwd=None):
        return subprocess.run([BIN / "libreyolo", *map(str, words)], cwd=cwd or self.workspace,
                              env={**self.env, **(env or {})}, input=stdin, capture_output=True, text=True,
                              timeout=timeout)

    def succeed(self, *words, **options):
        result = self.libreyolo(*words, **options)
        self.assertEqual(result.returncode, 0, f"{words}: {result.stderr}")
        return result

    def refuse(self, code, *words, **options):
        """Runs a command that must fail with `code` and print nothing on stdout; gives back its stderr."""
        result = self.libreyolo(*words, **options)
        self.assertEqual(result.returncode, code, f"{words}: {result.stdout}{result.stderr}")
        self.assertEqual(result.stdout, "")
        return result.stderr

    def infer(self, *words, **options):
        """A small real measurement."""
        return self.succeed("profile", "infer", "--device", "cpu", "--weights", "random", "--imgsz", 64, "--warmup", 1,
                            "--runs", 3, *words, **options)

    def start_daemon(self, *flags, listen=None, store=None):
        listen = listen or f"unix:{self.scratch}/served.sock"
        store = store or self.scratch / "store"
        daemon = subprocess.Popen([BIN / "libreyolod", "--listen", listen, "--store", str(store),
                                   "--lock-dir", str(self.scratch), *flags],
                                  env=self.env, stderr=subprocess.PIPE, text=True)
        self.daemons.append(daemon)
        said = ""
        while "listening" not in said:
            line = daemon.stderr.readline()
            if not line:
                raise AssertionError(f"the daemon did not start: {said}")
            said += line
        daemon.said = said
        # What it logs later must not fill the pipe; read it when somebody asks.
        os.set_blocking(daemon.stderr.fileno(), False)
        fcntl.fcntl(daemon.stderr.fileno(), F_SETPIPE_SZ, 1 << 20)
        return daemon

    def place_weights(self, folder=None):
        if not WEIGHTS.exists():
            self.skipTest("shared fixtures are absent")
        target = (folder or self.workspace) / "weights"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(WEIGHTS, target / "LibreYOLO9t.pt")

    def read_json(self, path):
        return json.loads((self.workspace / path).read_text())


class ScriptedTest(ClientTest):
    """A test with a served daemon, which clients are told of, whose worker does what a script says
    (tests/support/scripted_worker.cc)."""

    GOOD = "hello\nstage warming_up\nprogress warm-up 1 1\nstage measuring\nprogress measure 5 5\ntrace own\nfinish\n"

    def setUp(self):
        super().setUp()
        self.socket = f"{self.scratch}/served.sock"
        self.env["LIBREYOLO_SERVER"] = f"unix:{self.socket}"
        self.worker = self.scratch / "worker"
        self.scripted = pathlib.Path(os.environ["LIBREYOLO_TEST_BIN_DIR"]) / "scripted_worker"
        build = subprocess.run([BIN / "libreyolod", "--version"], capture_output=True, text=True).stdout
        build = build[build.index("(") + 1:build.index(")")]
        # Without orders it only answers what `libreyolo doctor` asks of a worker.
        self.worker.write_text('#!/bin/sh\ncase "$1" in\n'
                               f'--version) echo "libreyolo-worker {build}" ;;\n'
                               f'--check-capture) cat {self.scratch}/capture ;;\n'
                               f"*) exec {self.scripted} {self.scratch}/scripts ;;\nesac\n")
        (self.scratch / "capture").write_text("ok CUPTI 130001 at /scripted\n")
        self.worker.chmod(0o700)
        (self.scratch / "scripts").mkdir()
        self.script("default", self.GOOD)

    def tearDown(self):
        self.env.pop("LIBREYOLO_SERVER")
        super().tearDown()

    def script(self, project, text):
        """What the worker does for a project's last folder; "default" for all others."""
        (self.scratch / "scripts" / project).write_text(text)

    def serve(self, *flags, store=None):
        return self.start_daemon("--worker", str(self.worker), "--worker-read", str(self.scripted), "--worker-read",
                                 str(self.scratch / "scripts"), "--cache", str(self.scratch / "cache"), "--hub",
                                 "http://127.0.0.1:9", *flags, store=store)


def kill_hard(pid):
    os.kill(pid, signal.SIGKILL)


def main():
    unittest.main()
