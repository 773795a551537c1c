"""Named points of the shipped daemon at which it is made to end, to fail and to be late (LIBREYOLOD_FAULTS): whatever
happens, each job has one end, each result is whole, and nothing is left over."""

import collections
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import support

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "soak"))
import soak_store  # noqa: E402

TRIALS = 2
FSYNC = ("fsync ", "after fsync ")
# How often these come depends on how messages fall together.
UNSTEADY = ("link receive",)
# SQLite writes its log back into the index when it is closed.
AT_THE_END = ("fsync index", "after fsync index")


class FaultTest(support.ScriptedTest):
    def setUp(self):
        super().setUp()
        self.store = self.scratch / "store"
        self.template = self.scratch / "template"
        self.log = ""

    # ---- one daemon after the other on copies of one store

    def make_template(self):
        """A store in which a repeat stands, so that the next one has to replace it."""
        daemon = self.serve()
        self.submit()
        self.await_quiet()
        self.end(daemon)
        shutil.copytree(self.store, self.template, symlinks=True)

    def fresh_store(self):
        shutil.rmtree(self.store)
        shutil.copytree(self.template, self.store, symlinks=True)
        self.log = ""

    def serve_with(self, plan):
        self.env["LIBREYOLOD_FAULTS"] = plan
        try:
            return self.serve("--heartbeat", "2")  # a worker that hears nothing says nothing
        finally:
            del self.env["LIBREYOLOD_FAULTS"]

    def read(self, daemon):
        text = daemon.stderr.read() or ""
        self.log += daemon.said + text
        daemon.said = ""
        return text

    def end(self, daemon):
        daemon.terminate()
        self.assertEqual(daemon.wait(timeout=30), 0)
        self.read(daemon)
        daemon.stderr.close()
        self.daemons.remove(daemon)

    def submit(self):
        """The id of a job that the daemon answered for, or None."""
        result = self.libreyolo("profile", "infer", "--device", "cpu", "--weights", "random", "--imgsz", 64, "--warmup", 1,
                                "--runs", 5, "--repeat", TRIALS, "--project", "runs/repeat", "--detach", timeout=60)
        return result.stdout.strip() if result.returncode == 0 else None

    def await_quiet(self):
        def quiet():
            result = self.libreyolo("jobs", "list", "--active", "--json")
            return result.returncode == 0 and not json.loads(result.stdout)["jobs"]

        support.wait_until(quiet, "all jobs to end")

    def check(self, case, known):
        """What must hold once the daemon was stopped in order."""
        jobs, events = soak_store.read_index(self.store / "index.sqlite", self.scratch)
        wrong = soak_store.check_jobs(jobs, events)
        found, broken = soak_store.read_results(self.store / "workspaces/default/runs")
        kept = {job for job in found if f"commit rolled forward job={job}" in self.log}
        wrong += broken + soak_store.check_results(found, jobs, ["repeat"], TRIALS, kept)
        wrong += [f"{job} was answered for and is not known" for job in known if job and job not in jobs]
        wrong += [f"left: {path}" for path in self.store.rglob(".staging")]
        self.assertEqual(wrong, [], case)
        self.assertEqual(self.workers(), [], case)
        return jobs

    def workers(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if b"scripted_worker" in words and str(self.scratch).encode() in words:
                    found.append(int(entry.name))
        return found

    def points(self):
        """[(point, how many times it came)] of a job that replaces another, in order."""
        self.fresh_store()
        daemon = self.serve_with("*=log")
        self.submit()
        self.await_quiet()
        self.end(daemon)
        return collections.Counter(quoted or bare for quoted, bare in
                                   re.findall(r'fault point point=(?:"([^"]*)"|(\S+))', self.log))

    def cases(self):
        """Each point each time it comes. Files of one name are fsynced many times, of which the first stands for all:
        CrashTest takes each."""
        for point, count in self.points().items():
            once = point.startswith(FSYNC) or point in UNSTEADY
            for nth in range(1, 2 if once else count + 1):
                yield point, nth

    # ---- what is done at them

    def test_the_end_of_the_daemon_at_any_point_loses_nothing(self):
        self.make_template()
        reached = 0
        for point, nth in list(self.cases()):
            case = f"crash at {point} ({nth})"
            self.fresh_store()
            try:
                daemon = self.serve_with(f"{point}=crash@{nth}")
            except AssertionError:  # it came at the start, before it listened
                self.daemons.pop().stderr.close()
                known, reached = [], reached + 1
            else:
                known = [self.submit()]
                if point in UNSTEADY:
                    support.wait_until(lambda: daemon.poll() is not None or not self.is_active(known), case)
                else:
                    if point in AT_THE_END:
                        self.await_quiet()
                        daemon.terminate()
                    support.wait_until(lambda: daemon.poll() is not None, f"the {case}")
                if daemon.poll() is None:
                    self.end(daemon)
                else:
                    self.assertEqual(daemon.returncode, -9, case)
                    reached += 1
                    self.read(daemon)
                    daemon.stderr.close()
                    self.daemons.remove(daemon)
            daemon = self.serve()
            self.await_quiet()
            self.end(daemon)
            self.check(case, known)
        self.assertGreater(reached, 30)

    def is_active(self, known):
        """Whether the daemon still has something to do; asked seldom enough to leave it alone."""
        if known == [None]:
            return False
        result = self.libreyolo("jobs", "show", known[0], "--json")
        return result.returncode != 0 or json.loads(result.stdout)["state"] not in ("SUCCEEDED", "FAILED", "CANCELLED")

    def test_an_error_at_any_point_is_one_failed_job_at_most(self):
        self.make_template()
        ends = collections.Counter()
        for point, nth in list(self.cases()):
            if point.startswith("after "):
                continue  # its answer is not looked at
            case = f"error at {point} ({nth})"
            self.fresh_store()
            try:
                daemon = self.serve_with(f"{point}=error@{nth}")
            except AssertionError:  # a daemon that cannot open its store says so and ends
                self.daemons.pop().stderr.close()
                continue
            known = [self.submit()]
            self.await_quiet()
            self.assertIsNone(daemon.poll(), case)
            # What failed once does not stay in the way.
            after = self.submit()
            self.await_quiet()
            self.end(daemon)
            daemon = self.serve()  # finishes what the next start was to finish
            self.end(daemon)
            jobs = self.check(case, [*known, after])
            self.assertEqual(soak_store.TERMINAL[jobs[after][1]], "SUCCEEDED", case)
            if known[0]:
                ends[soak_store.TERMINAL[jobs[known[0]][1]]] += 1
        self.assertGreater(ends["FAILED"], 10)
        self.assertGreater(ends["SUCCEEDED"], 3)

    def test_delays_change_nothing(self):
        self.make_template()
        for plan in ("index *=delay:30", "launch=delay:200;spawn worker=delay:200", "link *=delay:50",
                     "fsync *=delay:10;exchange *=delay:50", "write repeat file=delay:300"):
            self.fresh_store()
            daemon = self.serve_with(plan)
            known = self.submit()
            self.await_quiet()
            self.end(daemon)
            self.assertEqual(soak_store.TERMINAL[self.check(plan, [known])[known][1]], "SUCCEEDED", plan)

    def test_a_file_system_without_rename_flags(self):
        self.make_template()
        self.fresh_store()
        daemon = self.serve_with("rename flags=error")
        known = [self.submit() for _ in range(3)]
        self.await_quiet()
        self.end(daemon)
        jobs = self.check("no flags", known)
        self.assertEqual({soak_store.TERMINAL[jobs[job][1]] for job in known}, {"SUCCEEDED"})

    def test_a_removal_that_is_cut_off_is_completed(self):
        self.make_template()
        for point, nth in (("begin removal", 1), ("remove infer_repeat.json", 1), ("after remove infer_repeat.json", 1),
                           ("remove infer_0", 1), ("after remove infer_1", 1), ("delete removed", 1)):
            case = f"crash at {point}"
            self.fresh_store()
            # The old result stands in its own project, so that it is the one that goes.
            self.env["LIBREYOLOD_FAULTS"] = f"{point}=crash@{nth}"
            daemon = self.serve("--retain-count", "1")
            del self.env["LIBREYOLOD_FAULTS"]
            self.libreyolo("profile", "infer", "--device", "cpu", "--weights", "random", "--imgsz", 64, "--warmup", 1, "--runs",
                           5, "--project", "runs/single", "--detach")
            support.wait_until(lambda: daemon.poll() is not None, case)
            self.read(daemon)
            daemon.stderr.close()
            self.daemons.remove(daemon)
            daemon = self.serve()
            self.await_quiet()
            listed = {item["path"] for item in json.loads(self.succeed("profile", "list", "--json").stdout)["profiles"]}
            self.end(daemon)
            root = self.store / "workspaces/default/runs/repeat"
            left = sorted(path.name for path in root.iterdir()) if root.exists() else []
            whole = ["infer_0", "infer_1", "infer_repeat.json"]
            self.assertEqual(left, whole if point == "begin removal" else [], case)
            self.assertEqual("runs/repeat/infer_repeat.json" in listed, bool(left), case)
            self.assertEqual(list(self.store.rglob(".staging")), [], case)

    def test_an_upload_that_is_cut_off_at_any_point_comes_whole_or_again(self):
        # Over the size of a chunk, and what is read of it tells that all of it came.
        own = self.workspace / "own.json"
        profile = (pathlib.Path(__file__).parents[1] / "fuzz/corpus/profile_json/own-ops.json").read_text()
        own.write_text(profile + " " * (2 << 20))
        digest = hashlib.sha256(own.read_bytes()).hexdigest()
        blob = self.store / "blobs" / digest[:2] / digest
        daemon = self.serve_with("*=log")
        self.succeed("profile", "summary", own)
        self.end(daemon)
        points = collections.Counter(line.split("point=", 1)[1].strip().strip('"') for line in self.log.splitlines()
                                     if "fault point" in line and "upload" in line)
        self.assertGreater(points["upload write"], 2)
        for point in ("upload begin", "upload write", "fsync upload", "after fsync upload", "upload rename",
                      "after upload rename", "fsync upload folder", "after fsync upload folder"):
            self.assertIn(point, points)
            for mode in ("crash", "error"):
                if mode == "error" and point.startswith("after "):
                    continue
                case = f"{mode} at {point}"
                shutil.rmtree(self.store)
                daemon = self.serve_with(f"{point}={mode}@{min(2, points[point])}")
                first = self.libreyolo("profile", "summary", own)
                if mode == "crash":
                    support.wait_until(lambda: daemon.poll() is not None, case)
                    daemon.stderr.close()
                    self.daemons.remove(daemon)
                    daemon = self.serve()
                self.assertIn(blob.exists(), {"upload rename": (False,), "after upload rename": (True,)}.get(point, (True, False)),
                              case)
                if blob.exists():
                    self.assertEqual(hashlib.sha256(blob.read_bytes()).hexdigest(), digest, case)
                self.assertNotEqual(first.returncode if mode == "crash" else 1, 0, case)
                self.succeed("profile", "summary", own)
                self.assertEqual(hashlib.sha256(blob.read_bytes()).hexdigest(), digest, case)
                self.end(daemon)
                left = [path for path in self.store.glob("blobs*/**/*") if path.is_file() and path != blob]
                self.assertEqual(left, [], case)

    def test_a_plan_that_is_none_is_refused(self):
        for plan, said in (("exchange", "not name=mode"), ("x=explode", "the mode is"), ("x=error@0", "from 1 on")):
            result = subprocess.run([support.BIN / "libreyolod", "--listen", f"unix:{self.scratch}/x.sock", "--store",
                                     self.scratch / "x"], env={**self.env, "LIBREYOLOD_FAULTS": plan}, capture_output=True,
                                    text=True, timeout=20)
            self.assertEqual(result.returncode, 2, plan)
            self.assertIn(said, result.stderr)


if __name__ == "__main__":
    unittest.main()
