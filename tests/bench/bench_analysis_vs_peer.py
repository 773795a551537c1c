#!/usr/bin/env python3
"""Analysing a trace, against the peer's `analyze_trace` and against a bare simdjson pass over the same file.

The three take turns in one run. One core is measured in CPU time, two cores in wall time. Then: the memory of the
analysis over the file's size, a second reader on the trace against one empty RPC, and the whole command
`libreyolo profile summary` against the peer's.
"""

import argparse
import os
import shutil
import statistics
import subprocess

import bench_util

PEER_LOOP = """
import sys, time
from libreyolo.training.profiler import analyze_trace
print("ready", flush=True)
for line in sys.stdin:
    cpu, wall = time.process_time(), time.perf_counter()
    analyze_trace(line.strip())
    print(time.process_time() - cpu, time.perf_counter() - wall, flush=True)
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", help="virtual environment of the peer program")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--smoke", action="store_true", help="once and tiny: does it run at all")
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.megabytes = 1, [1]
    return args


class Server:
    """A process that measures one thing for each line, so that nothing is paid for its start."""

    def __init__(self, command, ready=False):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if ready:
            self.process.stdout.readline()

    def ask(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            raise bench_util.BenchError(f"{self.process.args[0]} gave no figures")
        return tuple(map(float, answer))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def peak_memory(command):
    """Peak resident bytes of a process."""
    pid = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise bench_util.BenchError(f"{' '.join(command)} failed")
    return usage.ru_maxrss * 1024


def measure_size(megabytes, folder, yardstick, peer, rounds):
    trace = folder / f"trace-{megabytes}.json"
    bench_util.run([yardstick, "--make", str(trace), str(megabytes)], folder, dict(os.environ))
    ours = Server([yardstick, "--serve", str(trace)])
    try:
        values = bench_util.alternate({
            "bare": lambda: ours.ask("bare"),
            "one": lambda: ours.ask("1"),
            "two": lambda: ours.ask("2"),
            "peer": lambda: peer.ask(str(trace)),
        }, rounds)
    finally:
        ours.close()
    size = trace.stat().st_size / 1e6
    print(f"{megabytes} MB, {rounds} rounds, {bench_util.load_text()}")

    def median(name, which):
        return statistics.median(value[which] for value in values[name])

    for name in values:
        print(f"     {name}: {size / median(name, 0):.0f} MB/s of CPU time, {size / median(name, 1):.0f} MB/s of wall")
    met = bench_util.report(f"{megabytes} MB: ours / peer, one core", median("one", 0) / median("peer", 0), 1 / 10)
    met &= bench_util.report(f"{megabytes} MB: ours / peer, two cores", median("two", 1) / median("peer", 1), 1 / 15)
    met &= bench_util.report(f"{megabytes} MB: ours / bare pass", median("one", 0) / median("bare", 0), 1 / 0.4)
    met &= bench_util.report(f"{megabytes} MB: peak memory / file",
                                peak_memory([yardstick, "--analyse-once", str(trace)]) / (size * 1e6), 1.0)
    return met, trace


def measure_commands(trace, peer_command, rounds):
    libreyolo = bench_util.find_binary("libreyolo")
    empty_rpc = bench_util.find_binary("empty_rpc", bench_util.bench_dir())
    with bench_util.workspace() as (folder, environment):
        shutil.copyfile(trace, folder / "profile_trace.json")
        source = bench_util.shared_dir() / "fixtures/reference-cpu/infer/profile.json"
        shutil.copyfile(source, folder / "profile.json")
        address = bench_util.local_daemon_address(folder, environment)
        warm = [libreyolo, "profile", "get", "profile_trace.json", "step_ms"]
        summary = ["profile", "summary", "profile.json"]
        first = bench_util.run(warm, folder, environment)
        bench_util.run([libreyolo, *summary], folder, environment)
        values = bench_util.alternate({
            "second reader": lambda: bench_util.time_process(warm, folder, environment),
            "empty RPC": lambda: bench_util.time_process([empty_rpc, address], folder, environment),
            "summary": lambda: bench_util.time_process([libreyolo, *summary], folder, environment),
        }, 20 * rounds)
        peer = [bench_util.run([peer_command, *summary], folder, environment) for _ in range(max(1, rounds // 2))]
    print(f"     first reader of the trace {first * 1e3:.0f} ms, the peer's summary {min(peer):.2f} s")
    ratio, low, high = bench_util.ratio_interval(values["second reader"], values["empty RPC"])
    met = bench_util.report("second reader / empty RPC process", ratio, 2.0, detail=f"95 % {low:.3f} to {high:.3f}")
    ratio = statistics.median(values["summary"]) / statistics.median(peer)
    return met & bench_util.report("summary process / the peer's", ratio, 1 / 200)


def measure():
    args = arguments()
    yardstick = bench_util.find_binary("trace_yardstick", bench_util.bench_dir())
    peer_command = bench_util.find_peer(args.peer)
    python = os.path.join(os.path.dirname(peer_command), "python")
    met = True
    with bench_util.workspace(daemon=False) as (folder, _):
        peer = Server([python, "-c", PEER_LOOP], ready=True)
        try:
            for megabytes in args.megabytes:
                result, trace = measure_size(megabytes, folder, yardstick, peer, args.rounds)
                met &= result
        finally:
            peer.close()
        return met & measure_commands(folder / f"trace-{args.megabytes[0]}.json", peer_command, args.rounds)


if __name__ == "__main__":
    bench_util.main(measure)
