#!/usr/bin/env python3
"""Memory that assignment and loss of one head take, against the peer's on the same sizes.

Each side computes the loss once in a process of its own, gradients recorded; what counts is the
peak of resident memory over what stood there before. Prints the ratio (below 1.0).
"""

import argparse
import statistics
import subprocess
from pathlib import Path

import bench_util

# Runs in the peer's environment.
PEER_SCRIPT = """
import ctypes, sys, warnings
warnings.simplefilter("ignore")
import torch
from libreyolo.models.yolo9.loss import YOLO9Loss
batch, side, boxes = map(int, sys.argv[1:])
def maps(batch, side):
    return [torch.randn(batch, 64 + 80, side // s, side // s, requires_grad=True) for s in (8, 16, 32)]
def targets(batch, boxes):
    rows = torch.zeros(batch, 300, 5)
    rows[:, :, 0] = -1
    for i in range(boxes):
        at = 0.9 * i / boxes
        rows[:, i] = torch.tensor([i % 80, at, at, at + 0.1, at + 0.1])
    return rows
def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) * 1024
small = YOLO9Loss(80, 16, [8, 16, 32], [64, 64], torch.device("cpu"))
small(maps(1, 64), targets(1, 1))
loss = YOLO9Loss(80, 16, [8, 16, 32], [side, side], torch.device("cpu"))
inputs = maps(batch, side), targets(batch, boxes)
ctypes.CDLL(None).malloc_trim(0)
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS:")
result = loss(*inputs)
print(status("VmHWM:") - before)
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", help="the peer's virtual environment (default .deps/peer)")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--imgsz", type=int, default=640)
    parser.add_argument("--boxes", type=int, default=20, help="in each image")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="one tiny round: does it run at all")
    args = parser.parse_args()
    if args.smoke:
        args.batch, args.imgsz, args.rounds = 2, 128, 1
    return args


def bytes_of(command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if result.returncode != 0:
        raise bench_util.BenchError(result.stderr[-2000:])
    return int(result.stdout.split()[-1])


def measure():
    args = arguments()
    ours = bench_util.find_binary("loss_memory", bench_util.bench_dir())
    python = str(Path(bench_util.find_peer(args.peer)).parent / "python")
    sizes = [str(args.batch), str(args.imgsz), str(args.boxes)]
    values = bench_util.alternate({
        "ours": lambda: bytes_of([ours, *sizes]),
        "peer": lambda: bytes_of([python, "-c", PEER_SCRIPT, *sizes]),
    }, args.rounds)
    print(f"loss of one head, batch {args.batch}, {args.imgsz} px, {args.boxes} boxes an image")
    for side, row in values.items():
        print(f"     {side}: median {statistics.median(row) / 1e6:.1f} MB, {len(row)} rounds")
    ratio, low, high = bench_util.ratio_interval(values["ours"], values["peer"])
    return bench_util.report("memory of assignment and loss, ours / peer", ratio, 1.0,
                             detail=f"95 % {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    bench_util.main(measure)
