"""What happens to jobs when processes die: the shipped daemon, a real worker, real signals."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

import support


def children_of(pid):
    """Pids of the processes whose parent is `pid`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


class FaultTest(support.ClientTest):
    # Long enough to be running while the test acts; never waited for to its end.
    LONG = ["profile", "infer", "--device", "cpu", "--weights", "random", "--imgsz", "64", "--runs", "1000000"]

    def setUp(self):
        super().setUp()
        self.address = f"unix:{self.scratch}/served.sock"
        self.env["LIBREYOLO_SERVER"] = self.address

    def tearDown(self):
        self.env.pop("LIBREYOLO_SERVER")
        super().tearDown()

    def job(self, job_id):
        return json.loads(self.succeed("jobs", "show", job_id, "--json").stdout)

    def state(self, job_id):
        return self.job(job_id)["state"].replace("JOB_STATE_", "")

    def submit(self, *words):
        return self.succeed(*self.LONG, "--detach", *words).stdout.strip()

    def wait_for_state(self, job_id, *states):
        support.wait_until(lambda: self.state(job_id) in states, f"{job_id} to be {states}")

    def short_job_runs(self):
        out = json.loads(self.infer("--json").stdout)
        self.assertEqual(self.state(out["job"]), "SUCCEEDED")

    def test_a_second_daemon_fails_at_once(self):
        self.start_daemon()
        for listen, store in ((self.address, self.scratch / "other"), (f"unix:{self.scratch}/b.sock", self.scratch / "store")):
            second = subprocess.run([support.BIN / "libreyolod", "--listen", listen, "--store", store], env=self.env,
                                    capture_output=True, text=True, timeout=20)
            self.assertEqual(second.returncode, 75, second.stderr)
            self.assertIn("in use by another libreyolod (pid ", second.stderr)
        self.short_job_runs()

    def test_a_crashed_worker_is_one_failed_job(self):
        daemon = self.start_daemon()
        job = self.submit()
        self.wait_for_state(job, "MEASURING")
        support.kill_hard(children_of(daemon.pid)[0])
        self.wait_for_state(job, "FAILED")
        error = self.job(job)["error"]
        self.assertEqual(error["reason"], "WORKER_CRASHED")
        self.assertIn("signal 9", error["message"])
        self.short_job_runs()

    def test_cancel_ends_running_and_queued_jobs(self):
        daemon = self.start_daemon()
        running = self.submit()
        queued = self.submit()
        self.wait_for_state(running, "WARMING_UP", "MEASURING")
        self.assertEqual(self.state(queued), "QUEUED")
        self.succeed("jobs", "cancel", queued)
        self.wait_for_state(queued, "CANCELLED")
        self.succeed("jobs", "cancel", running)
        self.wait_for_state(running, "CANCELLED")
        self.assertEqual(children_of(daemon.pid), [])
        self.short_job_runs()

    def test_interrupting_the_client_cancels_its_job(self):
        daemon = self.start_daemon()
        client = subprocess.Popen([support.BIN / "libreyolo", *self.LONG], cwd=self.workspace, env=self.env,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        support.wait_until(lambda: children_of(daemon.pid), "the worker to start")
        client.send_signal(signal.SIGINT)
        out, _ = client.communicate(timeout=60)
        self.assertEqual(client.returncode, 130)
        self.assertEqual(out, "")
        self.assertEqual(children_of(daemon.pid), [])

    def test_a_killed_daemon_loses_no_job(self):
        daemon = self.start_daemon()
        done = json.loads(self.infer("--json").stdout)
        running = self.submit()
        queued = self.succeed("profile", "infer", "--device", "cpu", "--weights", "random", "--imgsz", "64", "--runs",
                              "3", "--warmup", "1", "--detach").stdout.strip()
        self.wait_for_state(running, "WARMING_UP", "MEASURING")
        workers = children_of(daemon.pid)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        self.start_daemon()
        self.assertEqual(self.state(running), "FAILED")
        self.assertEqual(self.job(running)["error"]["reason"], "DAEMON_RESTARTED")
        self.wait_for_state(queued, "SUCCEEDED")
        for worker in workers:
            self.assertFalse(os.path.exists(f"/proc/{worker}") and "libreyolo-worker" in
                             pathlib.Path(f"/proc/{worker}/comm").read_text())
        self.assertNotEqual(self.succeed("profile", "get", done["job"], "img_per_s").stdout, "")
        staging = list((self.scratch / "store").rglob(".staging"))
        self.assertEqual(staging, [])

    def test_sigterm_drains(self):
        daemon = self.start_daemon()
        job = self.submit("--runs", "200")
        self.wait_for_state(job, "WARMING_UP", "MEASURING")
        daemon.send_signal(signal.SIGTERM)
        self.assertIn("shutting down", self.refuse(4, *self.LONG))
        self.assertEqual(daemon.wait(timeout=120), 0)
        self.start_daemon()
        self.assertEqual(self.state(job), "SUCCEEDED")

    def test_remote_files_are_uploaded_and_results_fetched(self):
        self.start_daemon()
        images = support.SHARED / "fixtures/yolo9/preprocess"
        if not images.exists():
            self.skipTest("shared fixtures are absent")
        self.infer(images / "wide.jpg")
        self.infer(images)
        path = "runs/profile/infer/profile.json"
        self.assertFalse((self.workspace / path).exists())
        self.succeed("profile", "fetch", "runs/profile/infer")
        self.assertEqual(self.read_json(path)["mode"], "inference")
        local = self.succeed("profile", "get", "./" + path, "img_per_s").stdout
        self.assertEqual(local, self.succeed("profile", "get", path, "img_per_s").stdout)
        self.assertEqual(local, self.succeed("profile", "get", "-", "img_per_s",
                                             stdin=(self.workspace / path).read_text()).stdout)
        (self.workspace / path).write_text("{}")
        self.assertIn("--force", self.refuse(2, "profile", "fetch", "runs/profile/infer"))
        self.assertIn("leaves the workspace", self.refuse(2, "profile", "summary", "runs/../../../index.sqlite"))

    def test_plain_tcp_is_for_loopback_only(self):
        refused = subprocess.run([support.BIN / "libreyolod", "--listen", "0.0.0.0:0", "--store", self.scratch / "s"],
                                 env=self.env, capture_output=True, text=True, timeout=20)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("loopback" if "loopback" in refused.stderr else "127.0.0.1", refused.stderr)
        self.refuse(4, "profile", "summary", "x.json", "--server", "127.0.0.1:1")


if __name__ == "__main__":
    support.main()
