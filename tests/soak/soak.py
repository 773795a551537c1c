#!/usr/bin/env python3
"""Many jobs of the shipped daemon and client, with workers, clients and the daemon killed, a disk that fills up, a project
and a store that become read-only, a wall clock that is set, a file system that cannot exchange, uploads that break off and
connections that stall, and retention at work; at the end nothing may be lost or left over. The worker is
tests/support/scripted_worker. Everything random follows from --seed, up to the scheduling of processes."""

import argparse
import collections
import contextlib
import fcntl
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import soak_store

KB = 1024
TRIALS = 3
MAX_PINS = 12
HOLD_SECONDS = 11
GOOD = "hello\nstage warming_up\nprogress warm-up 1 1\nstage measuring\nprogress measure 5 5\n"
ENDING = "trace own\nfinish\n"
# What becomes of a client's command: its result, a job without profile, the daemon gone or full, interrupted.
EXPECTED_EXITS = {0, 1, 2, 3, 4, 5, 6, 75, 130}
FAKETIME = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
# Memory is looked at once caches and allocators are warm.
WARM_SHARE = 0.4


def proc_text(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def rss_anon_kb(pid):
    for line in proc_text(pid, "status").decode().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def descriptor_count(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def slope_per_thousand(samples):
    """Least squares of (job number, KB), in KB per 1,000 jobs."""
    if len(samples) < 2:
        return 0.0
    mean_x = sum(x for x, _ in samples) / len(samples)
    mean_y = sum(y for _, y in samples) / len(samples)
    spread = sum((x - mean_x) ** 2 for x, _ in samples)
    return 1000 * sum((x - mean_x) * (y - mean_y) for x, y in samples) / spread if spread else 0.0


class Soak:
    def __init__(self, args):
        self.args = args
        self.random = random.Random(args.seed)
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="ly-soak-"))
        self.store = self.scratch / "store"
        self.runs = self.store / "workspaces/default/runs"
        self.address = f"unix:{self.scratch}/d.sock"
        self.counts = collections.Counter()
        self.wrong = []
        self.done = set()      # jobs that a client was told to have succeeded
        self.pinned = set()    # of them those that a client was told to have pinned
        self.known = set()     # jobs that a client was told of
        self.memory = []       # (jobs begun, KB) of the last daemon
        self.lock = threading.Lock()
        self.last = None       # the job that was asked for at the very end
        self.begun = 0
        self.retain_count = max(25, args.jobs // 4)
        self.faults_to_come = True
        self.stop = threading.Event()
        self.may_kill_daemon = threading.Event()
        self.daemon = None
        self.mounts = False
        self.bindfs = False
        self.store_was_read_only = False
        self.clock = self.scratch / "clock"
        self.starts = 0
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.scratch), "LIBREYOLO_SERVER": self.address,
                    "XDG_RUNTIME_DIR": str(self.scratch / "run"), "XDG_STATE_HOME": str(self.scratch / "state"),
                    "XDG_CACHE_HOME": str(self.scratch / "cache")}

    # ---- set up

    def prepare(self):
        (self.scratch / "run").mkdir(mode=0o700)
        self.store.mkdir()
        size_mb = 48 + self.args.jobs * 100 // KB
        self.mounts = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "soak", self.store],
                                     capture_output=True, check=False).returncode == 0
        if not self.mounts:
            print("nothing can be mounted here: no full disk, nothing read-only")
        if self.args.bindfs:
            self.mount_bindfs()
        if not FAKETIME:
            print("libfaketime is not installed: no clock is set")
        self.clock.write_text("+0\n")
        scripts = self.scratch / "scripts"
        scripts.mkdir()
        tick = self.scratch / "tick"
        (scripts / "default").write_text(GOOD + ENDING)
        (scripts / "slow").write_text(f"{GOOD}wait-file {tick}\n{ENDING}")
        (scripts / "repeat").write_text(f"{GOOD}trial 1 wait-file {tick}\n{ENDING}")
        (scripts / "crash").write_text("hello\nstage warming_up\nkill 11\n")
        (scripts / "stubborn").write_text(f"hello\nobey no\nstage measuring\nwait-file {self.scratch}/never\n")
        (scripts / "orphan").write_text(f"{GOOD}child {self.scratch}/cache/workers/default/child.pid\n{ENDING}")
        worker = self.scratch / "worker"
        worker.write_text(f"#!/bin/sh\nexec {self.args.worker} {scripts}\n")
        worker.chmod(0o700)

    def mount_bindfs(self):
        """Puts a file system before the store that has no flags for rename, and so no exchange."""
        if shutil.which("bindfs") is None or not self.mounts:
            print("--bindfs needs bindfs, and to be allowed to mount")
            sys.exit(77)  # skipped
        behind = self.store / "behind"
        behind.mkdir()
        self.store = self.scratch / "plain"
        self.store.mkdir()
        subprocess.run(["bindfs", behind, self.store], check=True)
        self.bindfs = True
        self.runs = self.store / "workspaces/default/runs"

    def daemon_env(self):
        """With a wall clock that do_clock_set() sets, and, every other time, renames without flags."""
        env = dict(self.env)
        if FAKETIME:
            # The monotonic clock and the times of files stay as they are, as when a clock is set.
            env.update({"LD_PRELOAD": str(FAKETIME[0]), "FAKETIME_TIMESTAMP_FILE": str(self.clock), "FAKETIME_NO_CACHE": "1",
                        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1"})
        if self.starts % 2 == 1:
            env["LIBREYOLOD_FAULTS"] = "rename flags=error"
            self.count("starts without rename flags")
        self.starts += 1
        return env

    def start_daemon(self):
        log = self.scratch / "daemon.log"
        before = log.stat().st_size if log.exists() else 0
        with open(log, "ab") as out:
            self.daemon = subprocess.Popen(
                [self.args.bin / "libreyolod", "--listen", self.address, "--store", self.store, "--lock-dir",
                 self.scratch, "--worker", self.scratch / "worker", "--worker-children", "--worker-read", self.args.worker, "--worker-read",
                 self.scratch / "scripts", "--cache", self.scratch / "cache", "--hub",
                 "http://127.0.0.1:9", "--heartbeat", "1", "--min-free", "0",
                 "--retain-count", str(self.retain_count)], env=self.daemon_env(), stderr=out)
        deadline = time.monotonic() + 60
        while b"listening" not in log.read_bytes()[before:]:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the daemon did not start: {log.read_bytes()[before:].decode()[-2000:]}")
            time.sleep(0.01)

    def client(self, *words, **options):
        return subprocess.Popen([self.args.bin / "libreyolo", *map(str, words)], env=self.env, cwd=self.scratch,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)

    def ask(self, *words):
        process = self.client(*words)
        out, error = process.communicate(timeout=240)
        return process.returncode, out, error

    # ---- clients

    def next_job(self):
        with self.lock:
            # A short run goes on until each fault was there once.
            if self.begun >= self.args.jobs and (not self.faults_to_come or self.begun >= 10 * self.args.jobs):
                return False
            self.begun += 1
            if not self.may_kill_daemon.is_set():
                self.memory.append((self.begun, rss_anon_kb(self.daemon.pid)))
            elif self.begun >= self.args.jobs // 2:
                self.may_kill_daemon.clear()
            return True

    def client_thread(self, number):
        dice = random.Random(self.args.seed * 1000 + number)
        while not self.stop.is_set() and self.next_job():
            try:
                self.run_client(dice)
            except Exception as error:  # a thread that ends silently would be a soak that tests less
                self.report(f"client {number}: {error!r}")

    def run_client(self, dice):
        project = dice.choices(["a", "b", "slow", "repeat", "crash", "stubborn", "orphan", "readonly"],
                               [30, 20, 18, 14, 6, 1, 4, 7])[0]
        words = ["profile", "infer", "--device", "cpu", "--weights", "random", "--size", "t", "--imgsz", 64, "--warmup",
                 1, "--runs", 5, "--json", "--project", f"runs/{project}"]
        words += ["--repeat", TRIALS] if project == "repeat" else []
        way = dice.choices(["waits", "detached", "killed", "interrupted", "stalled", "reads", "uploads", "pins"],
                           [37, 22, 12, 8, 8, 8, 4, 1])[0]
        self.count(f"client {way}")
        if way == "reads":
            self.read(dice)
        if way == "uploads":
            self.upload(dice)
        if way == "pins":
            self.pin(dice)
        process = self.client(*words, *(["--detach"] if way == "detached" else []))
        if way in ("killed", "interrupted", "stalled"):
            time.sleep(dice.uniform(0, 0.25))
            process.send_signal({"killed": signal.SIGKILL, "interrupted": signal.SIGINT}.get(way, signal.SIGSTOP))
        if way == "stalled":
            time.sleep(dice.uniform(0.2, 1))
            process.send_signal(signal.SIGCONT)
        out, error = process.communicate(timeout=300)
        self.judge(way, project, process.returncode, out, error)
        if process.returncode == 2:
            time.sleep(0.1)  # refused, while nothing can be written: there is no point in haste

    def judge(self, way, project, code, out, error):
        if code not in EXPECTED_EXITS and not (way == "killed" and code == -signal.SIGKILL) and \
                not (way == "interrupted" and code == -signal.SIGINT):
            self.report(f"a client that {way} in {project} ended with {code}: {error[-500:]}")
        self.count(f"exit {code}")
        if code != 0:
            return
        if way == "detached":
            with self.lock:
                self.known.add(out.strip() if not out.lstrip().startswith("{") else json.loads(out)["job"])
            return
        job = json.loads(out)["job"]
        with self.lock:
            self.known.add(job)
            self.done.add(job)

    def read(self, dice):
        with self.lock:
            known = sorted(self.done)
        if known:
            self.ask("profile", "get", dice.choice(known), "img_per_s")
        self.ask("profile", "list", "--top", 20)

    def pin(self, dice):
        with self.lock:
            known = sorted(self.done - self.pinned)
            full = len(self.pinned) >= MAX_PINS
        if known and not full:
            job = dice.choice(known)
            if self.ask("profile", "pin", job)[0] == 0:  # else retention was faster, or the daemon is gone
                with self.lock:
                    self.pinned.add(job)

    def upload(self, dice):
        """A file of the client's own, which goes to the server; every other time the client is killed under way."""
        own = self.scratch / f"own-{threading.get_ident()}.json"
        own.write_text(json.dumps({"traceEvents": [], "remark": dice.randbytes(dice.choice([KB, KB * KB])).hex()}))
        process = self.client("profile", "summary", own)
        if dice.random() < 0.5:
            time.sleep(dice.uniform(0, 0.15))
            process.kill()
        out, error = process.communicate(timeout=240)
        if process.returncode == 0:  # a trace without events is refused once it has come
            self.report(f"a trace without events was read: {out}{error}")

    # ---- faults

    def fault_thread(self):
        dice = random.Random(self.args.seed * 1000 + 999)
        faults = {"worker killed": 10, "connection stalled": 3, "daemon killed": 2}
        if self.mounts:
            faults.update({"disk full": 2, "project read-only": 2, "store read-only": 1})
        if FAKETIME:
            faults["clock set"] = 2
        # Each at least once: the daemon's end while it may still be ended, a project once it is there.
        first = sorted(dice.sample(list(faults), len(faults)),
                       key=lambda fault: {"daemon killed": 2, "project read-only": 0}.get(fault, 1))
        while not self.stop.wait(dice.uniform(0.1, 0.8)):
            self.faults_to_come = bool(first)
            fault = first.pop() if first else dice.choices(list(faults), faults.values())[0]
            if fault == "daemon killed" and not self.may_kill_daemon.is_set():
                continue
            try:
                getattr(self, "do_" + fault.replace(" ", "_").replace("-", "_"))(dice)
            except Exception as error:
                self.report(f"fault {fault}: {error!r}")

    def do_worker_killed(self, dice):
        workers = self.processes(lambda words: words.split(b"\0")[0].endswith(b"scripted_worker"))
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(workers), signal.SIGKILL)
                self.count("worker killed")

    def do_daemon_killed(self, _):
        self.daemon.kill()
        self.daemon.wait()
        self.count("daemon killed")
        self.start_daemon()

    def do_connection_stalled(self, dice):
        with socket.socket(socket.AF_UNIX) as stalled:
            stalled.connect(f"{self.scratch}/d.sock")
            stalled.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[:dice.randint(1, 24)])
            time.sleep(dice.uniform(0.05, 0.5))
        self.count("connection stalled")

    def do_disk_full(self, dice):
        ballast = self.store / "ballast"
        try:
            with open(ballast, "wb") as out, contextlib.suppress(OSError):
                free = os.statvfs(self.store).f_bavail * os.statvfs(self.store).f_frsize
                os.posix_fallocate(out.fileno(), 0, max(1, free - dice.choice([0, 4, 16, 64]) * KB))
            time.sleep(dice.uniform(0.1, 0.8))
        finally:
            ballast.unlink()
        self.count("disk full")

    def do_project_read_only(self, dice):
        if (self.runs / "readonly").exists():
            self.make_read_only(self.runs / "readonly", dice.uniform(0.1, 0.6))
            self.count("project read-only")

    def do_store_read_only(self, dice):
        """No new file can be made in it; what the daemon has open it goes on writing."""
        self.store_was_read_only = True
        self.make_read_only(self.store, dice.uniform(0.1, 0.4))
        self.count("store read-only")

    def make_read_only(self, folder, seconds):
        subprocess.run(["mount", "--bind", folder, folder], check=True)
        try:
            # Busy as long as somebody writes who came after the first call.
            for _ in range(50):
                if subprocess.run(["mount", "-o", "remount,bind,ro", folder], capture_output=True, check=False).returncode == 0:
                    time.sleep(seconds)
                    return
                time.sleep(0.01)
            self.report(f"{folder} could not be made read-only")
        finally:
            while subprocess.run(["umount", folder], capture_output=True, check=False).returncode != 0:
                time.sleep(0.02)  # somebody reads in it

    def do_clock_set(self, dice):
        """To another day, forth or back, for a while or for good."""
        self.clock.write_text(f"{dice.choice([-400, -1, 1, 400]) * 86400 + dice.randint(-3600, 3600):+d}\n")
        self.count("clock set")
        if dice.random() < 0.5:
            time.sleep(dice.uniform(0.05, 0.5))
            self.clock.write_text("+0\n")

    def tick_thread(self):
        """Lets workers that wait go on, and makes them wait again."""
        while not self.stop.is_set():
            (self.scratch / "tick").touch()
            self.stop.wait(0.05)
            (self.scratch / "tick").unlink()
            self.stop.wait(0.15)
        (self.scratch / "tick").touch()

    # ---- looking

    def processes(self, matches):
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                words = proc_text(entry, "cmdline")
                if str(self.scratch).encode() in words and matches(words):
                    found.append(int(entry))
        return found

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def report(self, what):
        with self.lock:
            self.wrong.append(what)
        print("WRONG:", what, flush=True)

    def expect(self, true, what):
        if not true:
            self.report(what)

    # ---- the run

    def run(self):
        started = time.monotonic()
        self.prepare()
        self.start_daemon()
        self.may_kill_daemon.set()
        helpers = [threading.Thread(target=self.tick_thread), threading.Thread(target=self.fault_thread)]
        clients = [threading.Thread(target=self.client_thread, args=(i,)) for i in range(self.args.clients)]
        for thread in helpers + clients:
            thread.start()
        for thread in clients:
            while thread.is_alive():
                thread.join(30)
                if self.args.verbose:
                    print(f"{time.monotonic() - started:.0f} s: {self.begun} jobs begun", flush=True)
        self.stop.set()
        for thread in helpers:
            thread.join()
        self.await_quiet()
        self.check_alive()
        self.check_at_rest()
        self.tell(time.monotonic() - started)
        return not self.wrong

    def await_quiet(self):
        deadline = time.monotonic() + 60
        while True:
            code, out, error = self.ask("jobs", "list", "--active", "--top", 0, "--json")
            if code == 0 and not json.loads(out).get("jobs"):
                return
            if time.monotonic() > deadline:
                return self.report(f"jobs do not end: {out[-1500:]}{error}")
            time.sleep(0.2)

    def check_alive(self):
        """One more job, now that all is quiet: the device is free, and the daemon holds nothing of the others."""
        descriptors = []
        for pause in (HOLD_SECONDS, 0.5):  # retention passes over what somebody read a moment ago
            code, out, error = self.ask("profile", "infer", "--device", "cpu", "--weights", "random", "--size", "t",
                                        "--imgsz", 64, "--warmup", 1, "--runs", 5, "--json", "--project", "runs/a")
            self.expect(code == 0, f"a job after the end fails: {out}{error}")
            self.last = json.loads(out)["job"] if code == 0 else None
            time.sleep(pause)
            descriptors.append(descriptor_count(self.daemon.pid))
        self.counts["descriptors at the end"] = descriptors[-1]
        # A fresh daemon has about 20 with an idle index, its socket and gRPC's own.
        self.expect(descriptors[-1] <= 40, f"the daemon has {descriptors[-1]} open descriptors")
        left = self.processes(lambda words: b"libreyolod" not in words and b"bindfs" not in words)
        self.expect(not left, f"processes are left: {[proc_text(pid, 'cmdline') for pid in left]}")
        slope = slope_per_thousand(self.memory[int(len(self.memory) * WARM_SHARE):])
        self.counts["memory, KB per 1,000 jobs"] = round(slope)
        grown = max(0, self.memory[-1][1] - self.memory[0][1]) if self.memory else 0
        self.counts["memory, KB grown since the last kill"] = grown
        self.expect(grown <= 16 * KB, f"the daemon grew by {grown} KB")
        if self.args.jobs >= 2000:  # below, the slope is that of caches that fill
            self.expect(slope <= KB, f"the daemon grows by {slope:.0f} KB per 1,000 jobs")

    def check_at_rest(self):
        self.daemon.terminate()
        self.expect(self.daemon.wait(timeout=60) == 0, f"SIGTERM ended the daemon with {self.daemon.returncode}")
        jobs, events = soak_store.read_index(self.store / "index.sqlite", self.scratch)
        self.counts["jobs in the index"] = len(jobs)
        for wrong in soak_store.check_jobs(jobs, events):
            self.report(wrong)
        # In a project that was read-only when its job ended, staging waits for the next start.
        staging = [path for path in self.runs.rglob(".staging")
                   if path.parent.name != "readonly" and not self.store_was_read_only]
        self.expect(not staging, f"staging is left: {staging}")
        for lock in self.scratch.rglob("*.lock"):
            with open(lock, "rb") as held:
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    self.report(f"{lock} is still held")
        self.check_results(jobs)
        # Once more through recovery: it must find nothing to do.
        self.start_daemon()
        self.daemon.terminate()
        self.daemon.wait(timeout=60)
        again, _ = soak_store.read_index(self.store / "index.sqlite", self.scratch)
        self.expect(again == jobs, "a restart changed ended jobs")
        staging = list(self.runs.rglob(".staging"))
        self.expect(not staging, f"staging is left after a restart: {staging}")

    def check_results(self, jobs):
        found, wrong = soak_store.read_results(self.runs)
        rolled_forward = set(found) & self.logged("commit rolled forward job=")  # their commit was completed later
        self.counts["results completed after a failed commit"] = len(
            [job for job in rolled_forward if jobs.get(job, (0, 0))[1] == 7])
        removed = self.logged(r"removing profile workspace=\S+ job=")
        self.counts["results that retention removed"] = len(removed)
        self.counts["results pinned"] = len(self.pinned)
        wrong += soak_store.check_results(found, jobs, ["repeat"], TRIALS, rolled_forward, removed)
        wrong += [f"job {job} was pinned, and its result is gone" for job in self.pinned - set(found)]
        wrong += [f"the newest result, of {job}, is gone" for job in [self.last] if job not in found]
        # Those that somebody read a moment ago may stay a little longer.
        kept = len(found)
        if kept > self.retain_count + MAX_PINS:
            wrong.append(f"{kept} results are kept, {self.retain_count} are to be")
        wrong += [f"a client knows of job {job}, the index does not" for job in self.known - set(jobs)]
        wrong += [f"a client was told that job {job} succeeded; it is {jobs.get(job)}" for job in self.done
                  if jobs.get(job, (0, 0))[1] != 6]
        for line in wrong:
            self.report(line)
        for _, state in jobs.values():
            self.counts[f"jobs {soak_store.TERMINAL.get(state, state)}"] += 1

    def logged(self, pattern):
        """The jobs whose id the daemon logged behind this regular expression."""
        text = (self.scratch / "daemon.log").read_text(errors="replace")
        return set(re.findall(pattern + r"(\S+)", text))

    def tell(self, seconds):
        if self.args.figures:
            figures = {"seed": self.args.seed, "jobs": self.begun, "seconds": round(seconds), "clients": self.args.clients,
                       "bindfs": self.bindfs, "counts": dict(sorted(self.counts.items())), "wrong": self.wrong}
            self.args.figures.write_text(json.dumps(figures, indent=2) + "\n")
        print(f"seed {self.args.seed}: {self.begun} jobs asked for in {seconds:.0f} s by {self.args.clients} clients")
        for what, number in sorted(self.counts.items()):
            print(f"  {what}: {number}")
        print("nothing lost, nothing left over" if not self.wrong else f"{len(self.wrong)} things are WRONG")

    def clean_up(self, keep):
        self.stop.set()
        if self.daemon is not None and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        for pid in self.processes(lambda words: True):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if keep:
            shutil.copytree(self.store, self.scratch / "store-kept", symlinks=True, ignore_dangling_symlinks=True)
            print(f"kept in {self.scratch}")
        if self.bindfs:
            subprocess.run(["umount", "-l", self.store], check=False)
        if self.mounts:
            subprocess.run(["umount", "-l", self.scratch / "store"], check=False)
        if not keep:
            shutil.rmtree(self.scratch, ignore_errors=True)


def in_own_mounts():
    """Runs this again in a mount namespace of its own where that is allowed, so that no mount outlives it."""
    if os.environ.get("LIBREYOLO_SOAK_INSIDE"):
        return
    os.environ["LIBREYOLO_SOAK_INSIDE"] = "1"
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode == 0:
            os.execvp("unshare", [*unshare, sys.executable, "-B", *sys.argv])


def main():
    # A shell's background job ignores Ctrl-C, and the clients that are interrupted here would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=80)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bin", type=pathlib.Path, default=os.environ.get("LIBREYOLO_BIN_DIR"))
    parser.add_argument("--test-bin", type=pathlib.Path, default=os.environ.get("LIBREYOLO_TEST_BIN_DIR"))
    parser.add_argument("--keep", action="store_true", help="keep the scratch folder when something is wrong")
    parser.add_argument("--bindfs", action="store_true", help="the store on a file system without flags for rename")
    parser.add_argument("--figures", type=pathlib.Path, metavar="FILE", help="write what was counted there, as JSON")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    if args.bin is None or args.test_bin is None:
        parser.error("say where the executables are: --bin DIR --test-bin DIR")
    in_own_mounts()
    args.figures = args.figures and args.figures.resolve()
    args.bin = args.bin.resolve()
    args.worker = args.test_bin.resolve() / "scripted_worker"
    soak = Soak(args)
    good = False
    try:
        good = soak.run()
    finally:
        soak.clean_up(args.keep and not good)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
