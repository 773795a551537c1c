#!/usr/bin/env python3
"""`run` against the peer: same weights file, dataset and threads, in turns.

Prints the ratio of the step times (at most 1.0), of the whole commands (at most 0.7), and what our
tracer costs a step (at most 1.03).

The peer measures its step times under its own tracer and has no switch for that; ours are taken
without one. So part of the first ratio is the tracer's cost, which is what its users pay too.
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path

import bench_util


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", help="the peer's virtual environment (default .deps/peer)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--imgsz", type=int, default=320)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="one tiny round: does it run at all")
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.steps, args.warmup, args.imgsz, args.batch = 1, 2, 1, 64, 2
    return args


class Sides:
    """The two programs on one workspace and one dataset."""

    def __init__(self, args, folder, environment):
        self.args, self.folder = args, folder
        self.environment = dict(environment, OMP_NUM_THREADS=str(args.threads),
                                MKL_NUM_THREADS=str(args.threads),
                                XDG_CACHE_HOME=str(folder.parent / "cache"))
        self.ours = bench_util.find_binary("libreyolo")
        self.peer = bench_util.find_peer(args.peer)
        self.data = None

    def run(self, program, project):
        """Returns the wall time; the profile is at profile(project)."""
        args = self.args
        return bench_util.run(
            [program, "profile", "run", self.data, "--weights", "LibreYOLO9t.pt", "--device", "cpu",
             "--batch", str(args.batch), "--imgsz", str(args.imgsz), "--workers", str(args.workers),
             "--steps", str(args.steps), "--warmup", str(args.warmup),
             "--project", f"runs/profile/{project}"], self.folder, self.environment)

    def profile(self, project):
        path = self.folder / "runs" / "profile" / project / "prof" / "profile.json"
        return json.loads(path.read_text(encoding="utf-8"))

    def make_data(self):
        """The built-in dataset: ours draws it on its first use, then both read its file."""
        bench_util.run([self.ours, "profile", "run", "sample", "--weights", "random", "--device",
                        "cpu", "--imgsz", "64", "--batch", "2", "--steps", "2", "--warmup", "0",
                        "--project", "runs/profile/data"], self.folder, self.environment)
        found = sorted(Path(self.environment["XDG_CACHE_HOME"]).rglob("data.yaml"))
        if not found:
            raise bench_util.BenchError("the sample dataset is not in the cache")
        self.data = str(found[0])

    def stop_daemon(self):
        subprocess.run([self.ours, "daemon", "stop"], cwd=self.folder, env=self.environment,
                       capture_output=True, timeout=60, check=False)


def measure():
    args = arguments()
    met = True
    with bench_util.workspace() as (folder, environment):
        bench_util.place_weights(folder)
        sides = Sides(args, folder, environment)
        sides.make_data()
        print(f"run, YOLO9 t, {args.imgsz} px, batch {args.batch}, {args.warmup} + {args.steps} "
              f"steps, CPU, {args.threads} threads, {bench_util.load_text()}", flush=True)
        steps = {"ours": [], "peer": []}
        traced = []

        def ours():
            sides.stop_daemon()
            wall = sides.run(sides.ours, "ours")
            profile = sides.profile("ours")
            steps["ours"].append(profile["step_ms"])
            traced.append(profile["tracing"]["ratio"])
            return wall

        def peer():
            wall = sides.run(sides.peer, "peer")
            steps["peer"].append(sides.profile("peer")["step_ms"])
            return wall

        wall = bench_util.alternate({"ours": ours, "peer": peer}, args.rounds)
        for name, rows, unit in (("step", steps, "ms"), ("command", wall, "s")):
            for side, row in rows.items():
                print(f"     {name}, {side}: median {statistics.median(row):.3f} {unit}, "
                      f"{min(row):.3f} to {max(row):.3f}, {len(row)} rounds")
        for name, rows, limit in (("run step, ours / peer", steps, 1.0),
                                  ("run command, cold daemon, ours / peer", wall, 0.7)):
            ratio, low, high = bench_util.ratio_interval(rows["ours"], rows["peer"])
            met &= bench_util.report(name, ratio, limit, detail=f"95 % {low:.3f} to {high:.3f}")
        met &= bench_util.report("traced / untraced step of run", statistics.median(traced), 1.03,
                                 detail=f"{min(traced):.3f} to {max(traced):.3f}")
        print(f"     {bench_util.load_text()} at the end")
    return met


if __name__ == "__main__":
    bench_util.main(measure)
