#!/usr/bin/env python3
"""Compares inference of libreyolo-worker with the Python peer: same weights, image and threads, alternating in one run.

Prints the median over the rounds of
  p50     our p50 over the peer's, both without a trace          (yardstick: at most 1.0)
  min     the same of the lowest latencies, which other work on the machine disturbs least
  traced  our traced step over our untraced one                  (yardstick: at most 1.02 on YOLO9-t, batch 1)
  whole   our worker process over the peer's whole command, both with a trace and --runs 20

  tests/bench/infer_vs_peer.py --peer PEER/bin/libreyolo --build build/release --weights LibreYOLO9t.pt
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "server/worker/data/sample.jpg"


def run_ours(args, runs, trace, folder):
    command = [
        f"{args.build}/bench/worker_infer_bench", f"{args.build}/bin/libreyolo-worker",
        "--weights", str(folder / "weights/LibreYOLO9t.pt"), "--source", str(SAMPLE), "--imgsz", str(args.imgsz),
        "--runs", str(runs), "--threads", str(args.threads), "--staging", str(folder),
    ] + ([] if trace else ["--no-trace"])
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def run_peer(args, runs, trace, folder):
    """The peer takes latencies from the first half of --runs only: twice as many give as many."""
    command = [
        args.peer, "profile", "infer", str(SAMPLE), "--device", "cpu", "--imgsz", str(args.imgsz), "--runs", str(runs),
    ] + ([] if trace else ["--no-trace"])
    begin = time.monotonic()
    subprocess.run(command, check=True, capture_output=True, cwd=folder,
                   env=dict(os.environ, OMP_NUM_THREADS=str(args.threads)))
    seconds = time.monotonic() - begin
    with open(folder / "runs/profile/infer/profile_summary.json", encoding="utf-8") as file:
        return json.load(file)["latency"], seconds


def measure_round(args, folder):
    ours = run_ours(args, args.runs, False, folder)
    peer, _ = run_peer(args, 2 * args.runs, False, folder)
    traced = run_ours(args, 20, True, folder)
    _, peer_seconds = run_peer(args, 20, True, folder)
    row = {
        "p50": ours["p50_ms"] / peer["p50_ms"],
        "min": ours["min_ms"] / peer["min_ms"],
        "traced": traced["second_over_untraced"],
        "whole": traced["ms_since_start"]["ended"] / 1000 / peer_seconds,
    }
    print(f"ours {ours['p50_ms']:.1f} ms, peer {peer['p50_ms']:.1f} ms; " +
          ", ".join(f"{name} {value:.3f}" for name, value in row.items()), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="the peer's libreyolo executable")
    parser.add_argument("--build", default="build/release", help="our build folder")
    parser.add_argument("--weights", required=True, help="a YOLO9-t checkpoint that both load")
    parser.add_argument("--imgsz", type=int, default=640)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "weights").mkdir()
        shutil.copy(args.weights, folder / "weights/LibreYOLO9t.pt")
        rows = [measure_round(args, folder) for _ in range(args.rounds)]
    for key in rows[0]:
        print(f"median {key}: {statistics.median(row[key] for row in rows):.3f}")


if __name__ == "__main__":
    main()
