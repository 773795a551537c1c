"""Retention and pins by the shipped daemon and client, with a scripted worker."""

import json
import pathlib
import signal
import subprocess
import time
import unittest

import support


class RetentionTest(support.ScriptedTest):
    def profile(self, *words):
        """A job that nobody watches and whose result nobody reads: either would keep it for a while."""
        job = self.succeed("profile", "infer", "--device", "cpu", "--weights", "random", "--imgsz", 64, "--warmup", 1,
                           "--runs", 5, "--detach", *words).stdout.strip()

        def shown():
            return json.loads(self.succeed("jobs", "show", job, "--json").stdout)

        support.wait_until(lambda: shown()["state"] in ("SUCCEEDED", "FAILED"), f"{job} to end")
        self.assertEqual(shown()["state"], "SUCCEEDED", shown())
        return job

    def listed(self):
        """{job: whether it is pinned}; every listed file must be there, and nothing else."""
        profiles = json.loads(self.succeed("profile", "list", "--history", "--top", 0, "--json").stdout)["profiles"]
        root = self.scratch / "store/workspaces/default"
        self.assertEqual({item["path"] for item in profiles},
                         {str(path.relative_to(root)) for name in ("profile.json", "infer_repeat.json")
                          for path in root.rglob(name) if ".staging" not in path.parts})
        return {item["job"]: item["pinned"] for item in profiles}

    def log(self, daemon):
        daemon.said += daemon.stderr.read() or ""
        return daemon.said

    def place(self, job):
        """The absolute folder of a job's result."""
        profiles = json.loads(self.succeed("profile", "list", "--history", "--json").stdout)["profiles"]
        # Of a repeat the file that sums it up, which comes last in its folder.
        path = max(item["path"] for item in profiles if item["job"] == job)
        return (self.scratch / "store/workspaces/default" / path).parent

    def test_nothing_goes_unless_it_was_asked_for(self):
        self.serve()
        jobs = [self.profile() for _ in range(4)]
        self.assertEqual(set(self.listed()), set(jobs))

    def test_of_more_than_the_count_the_oldest_go(self):
        daemon = self.serve("--retain-count", "2")
        jobs = [self.profile() for _ in range(4)]
        self.assertEqual(set(self.listed()), set(jobs[2:]))
        log = self.log(daemon)
        for job in jobs[:2]:
            line = next(line for line in log.splitlines() if "change=remove_profile" in line and f"job={job}" in line)
            self.assertIn("why=count", line)
            said = self.refuse(2, "profile", "summary", job)
            self.assertIn(f"the profile of job {job} is gone", said)
        self.assertEqual(log.count("change=remove_profile"), 2)
        # The newest keep working by their ids.
        for job in jobs[2:]:
            self.succeed("profile", "summary", job)

    def test_of_more_bytes_all_but_the_newest_go(self):
        self.serve("--retain-bytes", "1")
        jobs = [self.profile("--project", f"runs/{i}") for i in range(3)]
        self.assertEqual(set(self.listed()), {jobs[-1]})

    def test_with_time_all_but_the_newest_go(self):
        self.serve("--retain-age", "1")
        jobs = [self.profile("--repeat", 2), self.profile()]
        # Nothing is committed any more: the daemon looks by itself.
        root = self.scratch / "store/workspaces/default/runs/profile"
        support.wait_until(lambda: not list(root.glob("infer_*")), "the older result to go")
        support.wait_until(lambda: not (root / ".staging").exists(), "its files to be deleted")
        newest = (self.place(jobs[-1]) / "profile.json").stat().st_mtime
        support.wait_until(lambda: time.time() - newest > 3, "it to be looked at after its time")
        self.assertEqual(set(self.listed()), {jobs[-1]})

    def test_a_pin_holds_over_a_restart_until_it_is_taken_back(self):
        daemon = self.serve("--retain-count", "1")
        first = self.profile()
        before = (self.place(first) / "profile.json").read_bytes()
        self.assertIn("pinned runs/profile/infer/profile.json", self.succeed("profile", "pin", first).stdout)
        self.assertEqual((self.place(first) / "profile.json").read_bytes(), before)
        second = self.profile()
        self.assertEqual(self.listed(), {first: True, second: False})
        support.kill_hard(daemon.pid)
        daemon.wait()
        daemon = self.serve("--retain-count", "1")
        third = self.profile()
        self.assertEqual(self.listed(), {first: True, third: False})
        self.assertIn("yes", next(line for line in self.succeed("profile", "list", "--history").stdout.splitlines()
                                  if first in line))
        out = self.succeed("profile", "unpin", f"runs/profile/history/{first}/infer", "--json").stdout
        self.assertFalse(json.loads(out)["pinned"])
        self.assertIn("change=unpin_profile", self.log(daemon))
        # What was just named stays at hand for a few seconds; then the next commit takes it.
        support.wait_until(lambda: {self.profile()} == set(self.listed()), "the result that was pinned to go")

    def test_a_repeat_is_pinned_and_removed_as_one(self):
        self.serve("--retain-count", "1")
        repeat = self.profile("--repeat", 3, "--project", "runs/repeat")
        self.succeed("profile", "pin", "runs/repeat/infer_1")
        self.profile()
        self.assertEqual(len([path for path in (self.place(repeat)).iterdir() if path.name.startswith("infer")]), 4)
        self.assertTrue(self.listed()[repeat])
        other = self.profile("--repeat", 2, "--project", "runs/other")
        last = self.profile()
        self.assertEqual(set(self.listed()), {repeat, last})
        self.assertFalse(list((self.scratch / "store/workspaces/default/runs").glob("other/*")), other)

    def test_a_watched_result_stays_for_a_while(self):
        self.serve("--retain-count", "1")
        first = self.profile()
        self.succeed("jobs", "watch", first)
        second = self.profile()
        self.assertEqual(set(self.listed()), {first, second})

    def test_a_pin_needs_a_result_of_the_servers_own(self):
        self.serve()
        self.profile()
        self.assertIn("not found", self.refuse(2, "profile", "pin", "runs/nothing"))
        foreign = self.scratch / "store/workspaces/default/runs/foreign"
        foreign.mkdir(parents=True)
        (foreign / "profile.json").write_text('{"mode": "inference"}')
        self.assertIn("made by no job of this server", self.refuse(2, "profile", "pin", "runs/foreign"))

    def test_a_result_stays_while_it_is_downloaded(self):
        trace = self.scratch / "scripts/large.json"
        self.profile_of_size(trace, 64 << 20)
        self.script("large", self.GOOD.replace("trace own", f"trace {trace}"))
        self.serve("--retain-count", "1")
        large = self.profile("--project", "runs/large")
        fetch = subprocess.Popen([support.BIN / "libreyolo", "profile", "fetch", large, "--output", "fetched"],
                                 cwd=self.workspace, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def received():
            return sum(path.stat().st_size for path in (self.workspace / "fetched").rglob("*.part*"))

        support.wait_until(lambda: received() > 1 << 20 or fetch.poll() is not None, "the fetch to be under way")
        fetch.send_signal(signal.SIGSTOP)
        self.assertLess(received(), 60 << 20, "the fetch was too quick for this test")
        others = [self.profile() for _ in range(2)]
        self.assertEqual(set(self.listed()), {large, others[-1]})
        fetch.send_signal(signal.SIGCONT)
        out, error = fetch.communicate(timeout=120)
        self.assertEqual(fetch.returncode, 0, error)
        self.assertIn("profile_trace.json", out)
        fetched = next((self.workspace / "fetched").rglob("profile_trace.json"))
        self.assertEqual(fetched.read_bytes(), (self.place(large) / "profile_trace.json").read_bytes())

    def profile_of_size(self, path: pathlib.Path, size):
        """A valid trace: the scripted worker's own, with a long remark."""
        self.serve_once_for_trace(path)
        trace = json.loads(path.read_text())
        trace["remark"] = "x" * size
        path.write_text(json.dumps(trace))

    def serve_once_for_trace(self, path):
        store = self.scratch / "other-store"
        daemon = self.serve(store=store)
        self.profile()
        path.write_bytes((store / "workspaces/default/runs/profile/infer/profile_trace.json").read_bytes())
        daemon.terminate()
        daemon.wait()


if __name__ == "__main__":
    unittest.main()
