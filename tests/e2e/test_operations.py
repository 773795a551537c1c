"""What an operator sees of a served daemon: metrics, request ids, the log."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest
import urllib.error
import urllib.request

import support

# The distribution's own Python, which has the package python3-prometheus-client.
PYTHON = "/usr/bin/python3"
PARSE = """
import json, sys
from prometheus_client.parser import text_string_to_metric_families
json.dump([[s.name, s.labels, s.value, f.documentation] for f in text_string_to_metric_families(sys.stdin.read())
           for s in f.samples], sys.stdout)
"""
HAS_PARSER = subprocess.run([PYTHON, "-c", "import prometheus_client"], capture_output=True).returncode == 0

JOB = ["profile", "infer", "--device", "cpu", "--weights", "random", "--runs", 5]


class OperatedTest(support.ScriptedTest):
    def serve(self, *flags):
        daemon = super().serve(*flags)
        self.said = daemon.said
        return daemon

    def log(self):
        try:
            while piece := os.read(self.daemons[-1].stderr.fileno(), 65536):
                self.said += piece.decode()
        except BlockingIOError:
            pass
        return self.said

    def log_line(self, event, **fields):
        """The first line of that event with these fields, as a dictionary."""
        for line in self.log().splitlines():
            found = re.match(r"\S+ \w+ (.*)", line)
            if not found or not found[1].startswith(event + " "):
                continue
            values = dict(re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)', found[1]))
            if all(values.get(key) == value for key, value in fields.items()):
                return values
        raise AssertionError(f"no line {event} with {fields}: {self.said}")


@unittest.skipUnless(HAS_PARSER, "python3-prometheus-client is not installed")
class MetricsTest(OperatedTest):
    def serve(self, *flags):
        daemon = super().serve("--metrics-listen", "127.0.0.1:0", *flags)
        self.port = int(re.search(r"metrics .*port=(\d+)", daemon.said).group(1))
        return daemon

    def scrape(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20) as answer:
            self.assertEqual(answer.status, 200)
            self.text = answer.read().decode()
        parsed = subprocess.run([PYTHON, "-c", PARSE], input=self.text, capture_output=True, text=True, timeout=60)
        self.assertEqual(parsed.returncode, 0, parsed.stderr)
        samples = {}
        for name, labels, value, documentation in json.loads(parsed.stdout):
            self.assertTrue(documentation, name)
            samples[(name, *sorted(labels.items()))] = value
        return samples

    def test_values_move_with_jobs(self):
        self.serve()
        before = self.scrape()
        self.assertEqual(before[("libreyolod_jobs", ("state", "queued"))], 0)
        self.assertEqual(before[("libreyolod_accepting_jobs",)], 1)
        self.assertEqual(before[("libreyolod_store_writable",)], 1)
        self.assertEqual(before[("libreyolod_store_profiles", ("kind", "profiles"))], 0)
        self.assertGreater(before[("libreyolod_store_free_bytes",)], 0)
        build = [key for key in before if key[0] == "libreyolod_build_info"]
        self.assertEqual(len(build), 1)

        self.succeed(*JOB)
        self.succeed(*JOB, "--project", "runs/again")
        after = self.scrape()
        self.assertEqual(after[("libreyolod_jobs_finished_total", ("state", "succeeded"))], 2)
        self.assertEqual(after[("libreyolod_job_queue_wait_seconds_count",)], 2)
        self.assertEqual(after[("libreyolod_lease_seconds_count",)], 2)
        self.assertEqual(after[("libreyolod_store_profiles", ("kind", "profiles"))], 2)
        self.assertGreater(after[("libreyolod_store_bytes", ("kind", "profiles"))], 0)
        create = (("code", "OK"), ("method", "JobService/CreateJob"))
        self.assertEqual(after[("libreyolod_rpcs_total", *create)], 2)
        self.assertEqual(after[("libreyolod_rpc_duration_seconds_count", ("method", "JobService/WatchJob"))], 2)
        # Nobody holds a device any more, and no call is open but for what a client left behind.
        self.assertNotIn("libreyolod_lease_age_seconds", self.text)
        self.assertEqual(sum(value for key, value in after.items() if key[0] == "libreyolod_jobs"), 0)

    def test_a_running_and_a_waiting_job(self):
        self.script("held", f"hello\nstage measuring\nwait-file {self.scratch}/go\ntrace own\nfinish\n")
        self.serve()
        held = self.succeed(*JOB, "--project", "runs/held", "--detach").stdout.strip()
        self.succeed(*JOB, "--project", "runs/next", "--detach")
        support.wait_until(lambda: self.scrape()[("libreyolod_jobs", ("state", "measuring"))] == 1, "the job")
        now = self.scrape()
        self.assertEqual(now[("libreyolod_jobs", ("state", "queued"))], 1)
        age = now[("libreyolod_lease_age_seconds", ("device", "cpu"))]
        self.assertGreater(age, 0)
        self.assertGreater(self.scrape()[("libreyolod_lease_age_seconds", ("device", "cpu"))], age)
        self.succeed("jobs", "cancel", held)
        support.wait_until(
            lambda: self.scrape()[("libreyolod_jobs_finished_total", ("state", "cancelled"))] == 1, "the cancel")

    def test_crashes_are_counted_by_reason(self):
        self.script("killed", "hello\nkill 9\n")
        self.script("left", "hello\nexit 7\n")
        self.script("odd", "hello other-build\n")
        self.serve()
        for project in ("killed", "left", "odd"):
            self.refuse(3, *JOB, "--project", f"runs/{project}")
        now = self.scrape()
        crashes = {key[1][1]: value for key, value in now.items() if key[0] == "libreyolod_worker_crashes_total"}
        self.assertEqual(crashes, {"SIGKILL": 1, "exit": 1, "build": 1})
        self.assertEqual(now[("libreyolod_jobs_failed_total", ("reason", "WORKER_CRASHED"))], 2)
        self.assertEqual(now[("libreyolod_jobs_failed_total", ("reason", "WORKER_MISMATCH"))], 1)

    def test_uploads_and_refused_calls(self):
        self.serve()
        picture = self.workspace / "own.jpg"
        picture.write_bytes(b"no picture, but bytes")
        self.libreyolo("profile", "infer", "./own.jpg", "--device", "cpu", "--weights", "random")
        self.refuse(2, "jobs", "show", "no-such-job")
        now = self.scrape()
        self.assertEqual(now[("libreyolod_uploads_total",)], 1)
        self.assertEqual(now[("libreyolod_upload_bytes_total",)], len(b"no picture, but bytes"))
        self.assertEqual(now[("libreyolod_store_bytes", ("kind", "uploads"))], len(b"no picture, but bytes"))
        self.assertEqual(
            now[("libreyolod_rpcs_total", ("code", "NOT_FOUND"), ("method", "JobService/GetJob"))], 1)

    def test_cordon_shows(self):
        self.serve()
        self.succeed("daemon", "cordon")
        self.assertEqual(self.scrape()[("libreyolod_accepting_jobs",)], 0)
        self.succeed("daemon", "uncordon")
        self.assertEqual(self.scrape()[("libreyolod_accepting_jobs",)], 1)

    def test_nothing_else_is_served(self):
        self.serve()
        for path in ("/", "/metrics/..", "/etc/passwd"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20)
            self.assertEqual(refused.exception.code, 404)

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_finds_nothing_to_say(self):
        self.serve()
        self.succeed(*JOB)
        self.scrape()
        done = subprocess.run(["promtool", "check", "metrics"], input=self.text, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_off_loopback_only_when_it_is_asked_for(self):
        words = [support.BIN / "libreyolod", "--listen", f"unix:{self.socket}", "--store", self.scratch / "store"]
        for address, hint in (("0.0.0.0:0", "--metrics-anywhere"), ("127.0.0.1:99999", "is no port"), ("9464", "HOST:PORT")):
            done = subprocess.run([*words, "--metrics-listen", address], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(hint, done.stderr)
        self.serve()
        done = subprocess.run([*words[:2], f"unix:{self.scratch}/b.sock", "--store", self.scratch / "b", "--metrics-listen",
                               f"127.0.0.1:{self.port}"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot serve metrics on 127.0.0.1:{self.port}", done.stderr)


class RequestIdTest(OperatedTest):
    def test_an_errors_request_id_is_in_the_log(self):
        self.serve()
        said = self.refuse(2, "jobs", "show", "no-such-job")
        request = re.search(r"request id ([0-9a-f]{16}), for the server's operator", said).group(1)
        line = self.log_line("call failed", request=request)
        self.assertEqual(line["method"], "JobService/GetJob")
        self.assertEqual(line["code"], "NOT_FOUND")
        self.assertIn("no-such-job", line["message"])
        error = json.loads(self.refuse(2, "jobs", "show", "no-such-job", "--json"))
        self.assertEqual(self.log_line("call failed", request=error["request_id"])["code"], "NOT_FOUND")

    def test_the_users_own_daemon_needs_no_operator(self):
        said = self.refuse(2, "jobs", "show", "no-such-job", env={"LIBREYOLO_SERVER": ""})
        self.assertNotIn("request id", said)
        self.succeed("daemon", "stop", env={"LIBREYOLO_SERVER": ""})

    def test_a_jobs_lines_lead_back_to_the_request(self):
        self.script("killed", "hello\nkill 9\n")
        self.serve()
        self.refuse(3, *JOB, "--project", "runs/killed")
        audit = self.log_line("audit", change="create_job")
        queued = self.log_line("job queued", request=audit["request"])
        self.assertEqual(queued["job"], audit["target"])
        job = queued["job"]
        self.log_line("job state", job=job, to="STARTING")
        self.log_line("worker started", job=job)
        self.log_line("worker ended", job=job, signal="9")
        self.assertEqual(self.log_line("job ended", job=job)["reason"], "WORKER_CRASHED")
        # Every line about a job names it, and every line of a call names the request.
        for line in self.said.splitlines():
            if re.match(r"\S+ \w+ (job|worker) ", line):
                self.assertIn(f"job={job}", line)


if __name__ == "__main__":
    support.main()
