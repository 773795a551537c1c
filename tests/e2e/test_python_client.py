"""The example client (docs/examples/python), made from the protos by stock tools, as a real peer of the shipped daemon."""

import json
import pathlib
import socket
import subprocess
import threading
import unittest

import support

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs/examples/python"
ENVIRONMENT = ROOT / ".deps/api-client"


def read_yaml(path):
    code = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
    done = subprocess.run([ENVIRONMENT / "bin/python", "-c", code], input=path.read_bytes(), capture_output=True,
                          check=True)
    return json.loads(done.stdout)


class Proxy:
    """A way to the daemon that can be cut: closes what is open; new connections pass again."""

    def __init__(self, path, target):
        self.target = target
        self.open = []
        self.accepted = 0
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def cut(self):
        with self.lock:
            for end in self.open:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self.open.clear()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        self.thread.join()
        self.listener.close()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self.target)
            except OSError:
                near.close()
                continue
            with self.lock:
                self.accepted += 1
                self.open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def _copy(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()


class Lines:
    """What a process prints, read as it comes."""

    def __init__(self, process):
        self.process = process
        self.lines = []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait_for(self, line):
        support.wait_until(lambda: line in self.lines or self.process.poll() is not None, f"the line {line!r}")
        if line not in self.lines:
            raise AssertionError(f"no {line!r} but {self.lines} and {self.process.stderr.read()}")


class PythonClientTest(support.ScriptedTest):
    @classmethod
    def setUpClass(cls):
        if not (ENVIRONMENT / ".complete").exists():
            raise unittest.SkipTest("no environment for the example: tests/support/python_env.sh makes it")
        subprocess.run([EXAMPLE / "make_env.sh", ENVIRONMENT], check=True, capture_output=True)

    def setUp(self):
        super().setUp()
        self.proxies = []
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            client.kill()
            client.wait()
            client.stdout.close()
            client.stderr.close()
        for proxy in self.proxies:
            proxy.close()
        super().tearDown()

    def proxy(self):
        path = f"{self.scratch}/proxy.sock"
        self.proxies.append(Proxy(path, self.socket))
        return self.proxies[-1], f"unix:{path}"

    def command(self, *words, server=None):
        return [ENVIRONMENT / "bin/python", "-B", EXAMPLE / "profile_client.py", "--server",
                server or self.env["LIBREYOLO_SERVER"], "--device", "cpu", "--weights", "random", *map(str, words)]

    def client(self, *words, **options):
        return subprocess.run(self.command(*words, **options), env=self.env, capture_output=True, text=True, timeout=120)

    def start_client(self, *words, **options):
        process = subprocess.Popen(self.command(*words, **options), env=self.env, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.clients.append(process)
        return Lines(process)

    def jobs(self):
        return json.loads(self.succeed("jobs", "list", "--json").stdout)["jobs"]

    def test_submits_reads_and_gates(self):
        self.serve()
        first = self.client("--request-id", "a", "--project", "runs/a")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("profile runs/a/infer/profile.json", first.stdout)
        self.assertIn("latency_p50_ms 21.0", first.stdout)
        again = self.client("--request-id", "a", "--project", "runs/a")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(again.stdout.splitlines()[0], first.stdout.splitlines()[0])
        self.assertEqual(len(self.jobs()), 1)

        gate = ["--project", "runs/b", "--request-id", "b", "--baseline", "runs/a/infer"]
        held = self.client(*gate, "--fail-on", "latency_p50_ms>5%")
        self.assertEqual(held.returncode, 0, held.stderr)
        broken = self.client(*gate, "--fail-on", "latency_p50_ms>20.5")
        self.assertEqual(broken.returncode, 10, broken.stderr)
        self.assertIn("gate: ", broken.stderr)
        self.assertEqual(len(self.jobs()), 2)

    def test_tells_what_the_server_says(self):
        self.serve()
        refused = self.client("--request-id", "a", "--project", "../out")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("error: PROJECT_REFUSED: ", refused.stderr)
        self.assertIn("hint:  ", refused.stderr)
        self.assertEqual(self.client("--request-id", "b").returncode, 0)
        reused = self.client("--request-id", "b", "--runs", 7)
        self.assertEqual(reused.returncode, 2)
        self.assertIn("REQUEST_ID_REUSED", reused.stderr)
        self.script("default", "hello\nstage measuring\nlog the last words\nexit 7\n")
        failed = self.client("--request-id", "c")
        self.assertEqual(failed.returncode, 3)
        self.assertIn("WORKER_CRASHED", failed.stderr)
        self.assertIn("the last words", failed.stderr)

    def test_a_server_that_stays_away_is_exit_4(self):
        gone = self.client("--request-id", "a", "--patience", 1)
        self.assertEqual(gone.returncode, 4)
        self.assertIn("UNAVAILABLE", gone.stderr)

    def test_watches_across_a_dropped_connection(self):
        self.serve()
        proxy, address = self.proxy()
        go = self.scratch / "go"
        self.script("slow", f"hello\nstage warming_up\nstage measuring\nwait-file {go}\ntrace own\nfinish\n")
        lines = self.start_client("--request-id", "a", "--project", "runs/slow", server=address)
        lines.wait_for("measuring")
        connections = proxy.accepted
        proxy.cut()
        support.wait_until(lambda: proxy.accepted > connections, "the client to come back")
        go.touch()
        self.assertEqual(lines.process.wait(timeout=60), 0)
        lines.thread.join(timeout=10)
        states = lines.lines[1:-3]
        self.assertEqual(states.count("warming_up"), 1)
        self.assertEqual(states.count("measuring"), 1)
        self.assertIn("profile runs/slow/infer/profile.json", lines.lines)
        self.assertEqual(len(self.jobs()), 1)

    def test_watches_across_a_restarted_daemon(self):
        daemon = self.serve()
        never = self.scratch / "never"
        self.script("first", f"hello\nstage measuring\nwait-file {never}\n")
        first = self.start_client("--request-id", "first", "--project", "runs/first")
        first.wait_for("measuring")
        second = self.start_client("--request-id", "second", "--project", "runs/second")
        second.wait_for("queued")
        support.kill_hard(daemon.pid)
        daemon.wait()
        self.serve()
        # What ran is lost, and says so; what was queued runs, and its watcher sees it.
        self.assertEqual(first.process.wait(timeout=60), 3, first.lines)
        self.assertIn("DAEMON_RESTARTED", first.process.stderr.read())
        self.assertEqual(second.process.wait(timeout=60), 0, second.lines)
        second.thread.join(timeout=10)
        self.assertIn("profile runs/second/infer/profile.json", second.lines)
        self.assertEqual(sorted(job["state"] for job in self.jobs()), ["FAILED", "SUCCEEDED"])
        # The id outlives the restart: the same request is still the same job.
        again = self.client("--request-id", "second", "--project", "runs/second")
        self.assertEqual(again.stdout.splitlines()[0], second.lines[0])

    def run_recipe(self, job, **environment):
        """Runs the `run` steps of a job of the CI recipe as a runner does, to the first that fails: (name, exit code)."""
        recipe = read_yaml(ROOT / "deploy/ci/github-actions.yml")
        variables = {name: value for name, value in recipe["env"].items() if "${{" not in value}
        results = []
        for step in recipe["jobs"][job]["steps"]:
            if "run" not in step or (step.get("if") != "always()" and any(code for _, code in results)):
                continue
            # What a runner takes by default has no pipefail; `shell: bash` has.
            shell = {None: ["bash", "-e", "-c"], "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]}
            done = subprocess.run([*shell[step.get("shell")], step["run"]],
                                  env={**self.env, **variables, **environment,
                                       "PATH": f"{support.BIN}:{self.env['PATH']}"},
                                  cwd=self.workspace, capture_output=True, text=True, timeout=120)
            results.append((step["name"], done.returncode))
        return results

    def test_the_ci_recipe_fails_on_a_regression(self):
        self.serve()
        work = {"DEVICE": "cpu", "WEIGHTS": "random", "PROJECT": "runs/ci/1-1"}
        self.assertEqual(self.run_recipe("baseline", **work), [("Measure main", 0)])
        self.assertEqual(self.run_recipe("gate", **work),
                         [("Measure this change", 0), ("Gate", 0), ("Draw the timeline", 0)])
        self.assertIn("img_per_s", (self.workspace / "comparison.txt").read_text())
        self.assertTrue((self.workspace / "timeline.html").exists())
        # A baseline from a faster time: the same measurement with more images in the same steps.
        self.succeed("profile", "infer", "--device", "cpu", "--weights", "random", "--repeat", 3, "--batch", 2,
                     "--project", "runs/ci/fast")
        faster = {**work, "BASELINE": "runs/ci/fast", "PROJECT": "runs/ci/2-1"}
        self.assertEqual(self.run_recipe("gate", **faster)[:2], [("Measure this change", 0), ("Gate", 10)])


if __name__ == "__main__":
    support.main()
