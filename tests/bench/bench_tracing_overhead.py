#!/usr/bin/env python3
"""What tracing costs `infer`: a traced step over an untraced one, YOLO9 t, batch 1, CPU.

Prints the ratio (at most 1.02). Every run measures both windows in one process, one after the
other; the ratio is taken within a run and then the median over the runs, so that a machine that
slows down from one run to the next does not count. Beside it stands what the two halves of the
untraced window differ by: a machine where that is wide cannot tell 2 per cent.
"""

import argparse
import json
import statistics

import bench_util


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10, help="runs with a trace")
    parser.add_argument("--runs", type=int, default=20, help="iterations of the untraced window")
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--imgsz", type=int, default=640)
    parser.add_argument("--smoke", action="store_true", help="one tiny round: does it run at all")
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.runs, args.warmup, args.imgsz = 2, 4, 1, 64
    return args


def step_markers_ms(path):
    """How long each traced step took, by the markers in the trace."""
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return [event["dur"] / 1000 for event in events
            if event.get("ph") == "X" and str(event.get("name", "")).startswith("ProfilerStep#")]


def run_once(args, folder, environment):
    """One run: both windows' medians and what the profile itself states."""
    bench_util.run(
        [bench_util.find_binary("libreyolo"), "profile", "infer", "--device", "cpu", "--batch", "1",
         "--imgsz", str(args.imgsz), "--warmup", str(args.warmup), "--runs", str(args.runs)],
        folder, environment)
    result = folder / "runs" / "profile" / "infer"
    profile = json.loads((result / "profile.json").read_text(encoding="utf-8"))
    if not profile.get("tracing"):
        raise bench_util.BenchError("the profile states no tracing overhead")
    traced = step_markers_ms(result / "profile_trace.json")
    untraced = [latency / 1e6 for latency in profile["latencies_ns"]]
    if not traced or not untraced:
        raise bench_util.BenchError(f"{len(traced)} traced and {len(untraced)} untraced steps")
    return {
        "traced": statistics.median(traced), "untraced": statistics.median(untraced),
        "stated": profile["tracing"]["ratio"], "dropped": profile["tracing"]["dropped_records"],
        "halves": statistics.median(untraced[len(untraced) // 2:]) /
                  statistics.median(untraced[:len(untraced) // 2]),
    }


def measure():
    args = arguments()
    with bench_util.workspace() as (folder, environment):
        bench_util.place_weights(folder)
        environment["OMP_NUM_THREADS"] = str(args.threads)
        print(f"traced over untraced step, YOLO9 t, {args.imgsz} px, batch 1, CPU, {args.threads} "
              f"threads, {bench_util.load_text()}", flush=True)
        runs = [run_once(args, folder, environment) for _ in range(args.rounds)]
    ratios = [run["traced"] / run["untraced"] for run in runs]
    ones = [1.0] * len(ratios)
    ratio, low, high = bench_util.ratio_interval(ratios, ones)
    noise, noise_low, noise_high = bench_util.ratio_interval([run["halves"] for run in runs], ones)
    print(f"     untraced p50 {statistics.median(run['untraced'] for run in runs):.3f} ms, traced "
          f"{statistics.median(run['traced'] for run in runs):.3f} ms, {len(runs)} runs, "
          f"{sum(run['dropped'] for run in runs)} records dropped")
    print(f"     as the profiles state it (means): median "
          f"{statistics.median(run['stated'] for run in runs):.3f}")
    print(f"     noise, second over first half of the untraced window: {noise:.3f}, "
          f"95 % {noise_low:.3f} to {noise_high:.3f}; {bench_util.load_text()} at the end")
    return bench_util.report("traced / untraced step", ratio, 1.02,
                             detail=f"95 % {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    bench_util.main(measure)
