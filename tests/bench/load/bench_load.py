#!/usr/bin/env python3
"""libreyolod under 1,000 open watchers, 200 concurrent readers and uploads.

Prints the p99 of a reader over that of a bare gRPC server with the same calls under the same load (at most 3.0), the growth
of the daemon's memory from the first round to the last (at most 1.1 times), and what the load does to a measurement: its p50
with the load over its p50 without, and whether the profile says so.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bench_util  # noqa: E402

GOOD_JOB = "hello\nstage warming_up\nstage measuring\ntrace own\nfinish\n"
BUSY_JOB = "hello\nstage starting\nwait-file /nonexistent\n"
MANY = 4096


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=20, help="of load in a round")
    parser.add_argument("--watchers", type=int, default=1000)
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--uploaders", type=int, default=2)
    parser.add_argument("--runs", type=int, default=60, help="iterations of the measurement that is disturbed")
    parser.add_argument("--smoke", action="store_true", help="small and short: does it run at all")
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.seconds, args.watchers, args.readers, args.runs = 1, 1, 20, 10, 5
    return args


def memory_kb(pid):
    """Resident memory without file pages."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1])
    return 0


class Server:
    """A server process that says on its first line that it is ready."""

    def __init__(self, command, folder, environment, log):
        self.log = open(log, "w+", encoding="utf-8")
        self.process = subprocess.Popen([*map(str, command)], cwd=folder, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log)

    def await_socket(self, path):
        bench_util.wait_for_socket(str(path), self.process, self.log)

    def stop(self):
        self.process.stdin.close()
        for _ in range(2):  # a daemon that is told twice does not wait for its jobs
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)
        self.process.kill()
        self.process.wait()
        self.log.close()


def start_daemon(folder, environment, name, *flags):
    socket = folder.parent / f"{name}.sock"
    server = Server([bench_util.find_binary("libreyolod"), "--listen", f"unix:{socket}", "--store", folder.parent / name,
                     "--max-connections", MANY, "--max-connections-per-peer", MANY, "--max-calls-per-user", MANY, *flags],
                    folder, environment, folder.parent / f"{name}.log")
    server.await_socket(socket)
    return server, f"unix:{socket}"


def client(address, folder, environment, *words):
    said = subprocess.run([bench_util.find_binary("libreyolo"), *map(str, words), "--server", address], cwd=folder,
                          env=environment, capture_output=True, text=True, timeout=600, check=False)
    if said.returncode != 0:
        raise bench_util.BenchError(f"libreyolo {' '.join(map(str, words))}: {said.stderr[-1000:]}")
    return said.stdout


def infer(address, folder, environment, project, *words):
    """A job; its record."""
    return json.loads(client(address, folder, environment, "profile", "infer", "--weights", "random", "--device", "cpu",
                             "--project", f"runs/{project}", "--json", *words))


def load_command(args, address, project, job, watchers=None, seconds=None):
    return [bench_util.find_binary("load_client", bench_util.bench_dir()), address, f"runs/{project}/infer/profile.json", job,
            str(args.watchers if watchers is None else watchers), str(args.readers), str(args.uploaders),
            str(args.seconds if seconds is None else seconds)]


def apply_load(args, address, job):
    said = subprocess.run(load_command(args, address, "read", job), capture_output=True, text=True, timeout=args.seconds + 300,
                          check=False)
    if said.returncode != 0:
        raise bench_util.BenchError(f"load_client: {said.stderr[-1000:]}")
    figures = json.loads(said.stdout)
    if said.stderr:
        print(f"     {said.stderr.strip()}")
    return figures


def readers_against_echo(args, folder, environment):
    """The p99 of each round on both servers, and the daemon's memory after each round."""
    scripts = folder.parent / "scripts"
    scripts.mkdir()
    (scripts / "default").write_text(GOOD_JOB)
    (scripts / "busy").write_text(BUSY_JOB)
    worker = folder.parent / "worker"
    scripted = bench_util.find_binary("scripted_worker", bench_util.bin_dir().parent / "tests")
    worker.write_text(f"#!/bin/sh\nexec {scripted} {scripts}\n")
    worker.chmod(0o700)
    daemon, address = start_daemon(folder, environment, "daemon", "--worker", worker, "--worker-read", scripted,
                                   "--worker-read", scripts)
    echo_socket = folder.parent / "echo.sock"
    echo = Server([bench_util.find_binary("echo_server", bench_util.bench_dir()), f"unix:{echo_socket}"], folder, environment,
                  folder.parent / "echo.log")
    try:
        echo.await_socket(echo_socket)
        infer(address, folder, environment, "read")
        job = infer(address, folder, environment, "busy", "--detach")["job"]
        memory = []

        def on_daemon():
            figures = apply_load(args, address, job)
            memory.append(memory_kb(daemon.process.pid))
            return figures

        return bench_util.alternate({"libreyolod": on_daemon,
                                     "bare server": lambda: apply_load(args, f"unix:{echo_socket}", job)}, args.rounds), memory
    finally:
        echo.stop()
        daemon.stop()


def measurement_under_load(args, folder, environment):
    """p50 and validity of two repeats without load, and of one with it."""
    daemon, address = start_daemon(folder, environment, "measuring")

    def measure(project):
        infer(address, folder, environment, project, "--imgsz", 160, "--threads", 1, "--warmup", 5, "--runs", args.runs)
        path = f"runs/{project}/infer/profile.json"
        p50 = json.loads(client(address, folder, environment, "profile", "get", path, "latency_p50_ms", "--json"))
        summary = json.loads(client(address, folder, environment, "profile", "summary", path, "--json"))
        return p50["latency_p50_ms"], {finding["code"] for finding in summary["findings"]}

    try:
        quiet, again = measure("quiet"), measure("again")
        load = subprocess.Popen(load_command(args, address, "quiet", "none", watchers=0, seconds=3600), stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        try:
            loaded = measure("loaded")
        finally:
            load.kill()
            load.wait()
        return quiet, again, loaded
    finally:
        daemon.stop()


def measure():
    args = arguments()
    with bench_util.workspace(daemon=False) as (folder, environment):
        print(f"{args.watchers} watchers, {args.readers} readers, {args.uploaders} uploaders, {args.rounds} rounds of "
              f"{args.seconds} s, {os.cpu_count()} CPUs, {bench_util.load_text()}")
        rows, memory = readers_against_echo(args, folder, environment)
        for name, figures in rows.items():
            print(f"     {name}: {sum(f['reads'] for f in figures)} reads, p50 "
                  f"{statistics.median(f['p50_ms'] for f in figures):.1f} ms, p99 "
                  f"{statistics.median(f['p99_ms'] for f in figures):.1f} ms, {sum(f['uploads'] for f in figures)} uploads, "
                  f"{min(f['watchers_open'] for f in figures)} watchers open to the end, "
                  f"{sum(f['errors'] for f in figures)} errors")
        quiet, again, loaded = measurement_under_load(args, folder, environment)
    bad = [f for f in rows["libreyolod"] if f["errors"] or f["watchers_open"] != args.watchers]
    met = [bench_util.report("rounds with an error or a lost watcher", len(bad), 0.0)]
    ratio, low, high = bench_util.ratio_interval([f["p99_ms"] for f in rows["libreyolod"]],
                                                 [f["p99_ms"] for f in rows["bare server"]])
    met.append(bench_util.report("p99 of a reader / bare gRPC server", ratio, 3.0, detail=f"95 % {low:.2f} to {high:.2f}"))
    met.append(bench_util.report("memory after the last round / after the first", memory[-1] / memory[0], 1.1,
                                detail=", ".join(f"{kb / 1024:.1f} MB" for kb in memory)))
    print(f"     a measurement without load: p50 {quiet[0]:.2f} and {again[0]:.2f} ms; with readers and uploads "
          f"on the same CPUs: {loaded[0]:.2f} ms, findings {', '.join(sorted(loaded[1])) or 'none'}")
    disturbed = abs(loaded[0] / quiet[0] - 1) > 0.05 + abs(again[0] / quiet[0] - 1)
    told = "FOREIGN_CPU_LOAD" in loaded[1]
    met.append(bench_util.report("measurements that were disturbed and do not say so", int(disturbed and not told), 0.0))
    return all(met)


if __name__ == "__main__":
    bench_util.main(measure)
