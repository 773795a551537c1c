#!/usr/bin/env python3
"""`infer` against the peer: same weights file, picture and threads, in turns.

Prints the ratio of the p50 latencies (at most 1.0) and of the whole commands (at most 0.667).

The peer's latency is taken with --no-trace by default: it measures under its tracer otherwise, and
ours never does. --peer-traced shows that comparison too.
"""

import argparse
import json
import statistics
import subprocess

import bench_util


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", help="the peer's virtual environment (default .deps/peer)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=50, help="iterations of each latency measurement")
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--imgsz", type=int, default=640)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--command-rounds", type=int, default=3, help="0: latency alone")
    parser.add_argument("--peer-traced", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="one tiny round: does it run at all")
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.command_rounds, args.runs, args.warmup, args.imgsz = 1, 1, 4, 1, 64
    return args


class Sides:
    """The two programs on one workspace."""

    def __init__(self, args, folder, environment):
        self.args, self.folder = args, folder
        self.environment = dict(environment, OMP_NUM_THREADS=str(args.threads),
                                MKL_NUM_THREADS=str(args.threads))
        self.ours = bench_util.find_binary("libreyolo")
        self.peer = bench_util.find_peer(args.peer)
        self.source = str(bench_util.ROOT / "server" / "worker" / "data" / "sample.jpg")

    def command(self, program, project, runs, warmup, *more):
        args = self.args
        return [program, "profile", "infer", self.source, "--weights", "LibreYOLO9t.pt", "--device",
                "cpu", "--batch", str(args.batch), "--imgsz", str(args.imgsz), "--warmup",
                str(warmup), "--runs", str(runs), "--project", f"runs/profile/{project}", *more]

    def p50_ms(self, program, project, *more):
        bench_util.run(self.command(program, project, self.args.runs, self.args.warmup, *more),
                       self.folder, self.environment)
        path = self.folder / "runs" / "profile" / project / "infer" / "profile.json"
        return json.loads(path.read_text(encoding="utf-8"))["latency"]["p50_ms"]

    def wall_s(self, program, project):
        """Start to result with default flags: weights, warm-up, measurement, trace, analysis."""
        runs = self.args.runs if self.args.smoke else 20
        warmup = 1 if self.args.smoke else 5
        return bench_util.run(self.command(program, project, runs, warmup), self.folder,
                              self.environment)

    def stop_daemon(self):
        subprocess.run([self.ours, "daemon", "stop"], cwd=self.folder, env=self.environment,
                       capture_output=True, timeout=60, check=False)

    def cold_wall_s(self, project):
        self.stop_daemon()
        return self.wall_s(self.ours, project)


def show(values, unit):
    for name, row in values.items():
        print(f"     {name}: median {statistics.median(row):.3f} {unit}, "
              f"{min(row):.3f} to {max(row):.3f}, {len(row)} rounds", flush=True)


def compare(name, values, ours, limit):
    ratio, low, high = bench_util.ratio_interval(values[ours], values["peer"])
    return bench_util.report(name, ratio, limit, detail=f"95 % {low:.3f} to {high:.3f}")


def measure():
    args = arguments()
    met = True
    with bench_util.workspace() as (folder, environment):
        bench_util.place_weights(folder)
        sides = Sides(args, folder, environment)
        print(f"infer, YOLO9 t, {args.imgsz} px, batch {args.batch}, CPU, {args.threads} threads, "
              f"{bench_util.load_text()}", flush=True)
        peer_flags = [] if args.peer_traced else ["--no-trace"]
        latency = bench_util.alternate({
            "ours": lambda: sides.p50_ms(sides.ours, "ours"),
            "peer": lambda: sides.p50_ms(sides.peer, "peer", *peer_flags),
        }, args.rounds)
        show(latency, "ms p50")
        met &= compare("infer p50, ours / peer", latency, "ours", 1.0)
        if args.command_rounds:
            wall = bench_util.alternate({
                "ours, daemon started": lambda: sides.cold_wall_s("ours"),
                "ours, daemon warm": lambda: sides.wall_s(sides.ours, "ours"),
                "peer": lambda: sides.wall_s(sides.peer, "peer"),
            }, args.command_rounds)
            show(wall, "s")
            # The reversed order puts "warm" first in every other round; the daemon lives by then.
            met &= compare("infer command, cold daemon, ours / peer", wall, "ours, daemon started",
                           0.667)
            met &= compare("infer command, warm daemon, ours / peer", wall, "ours, daemon warm",
                           0.667)
        print(f"     {bench_util.load_text()} at the end")
    return met


if __name__ == "__main__":
    bench_util.main(measure)
