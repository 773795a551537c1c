#!/usr/bin/env python3
"""Images per second of one loader worker against one of the peer's, same pictures, in turns.

Prints the time per image as a ratio (at most 0.5: twice as many images).
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import bench_util

# Runs in the peer's environment: examples as its training makes them, in one thread.
PEER_SCRIPT = """
import sys, time, warnings
warnings.simplefilter("ignore")
import cv2, torch
cv2.setNumThreads(0)
torch.set_num_threads(1)
from libreyolo.data import load_data_config
from libreyolo.data.augment.yolo9 import YOLO9MosaicMixupDataset, YOLO9TrainTransform
from libreyolo.data.dataset import YOLODataset
side, count = int(sys.argv[2]), int(sys.argv[3])
config = load_data_config(sys.argv[1], autodownload=False)
transform = YOLO9TrainTransform(max_labels=300, flip_prob=0.5, vertical_flip_prob=0.0, hsv_prob=1.0)
plain = YOLODataset(img_files=config["train_img_files"], label_files=config["train_label_files"],
                    img_size=(side, side), preproc=transform, num_classes=3)
items = YOLO9MosaicMixupDataset(plain, (side, side), mosaic=True, preproc=transform, degrees=0.0,
                                translate=0.1, mosaic_scale=(0.5, 1.5), mixup_scale=(0.5, 1.5),
                                shear=0.0, enable_mixup=False, mosaic_prob=1.0, mixup_prob=0.0)
for i in range(8):
    items[i]
start = time.perf_counter()
for i in range(count):
    items[i % len(items)]
print((time.perf_counter() - start) / count * 1e3)
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", help="the peer's virtual environment (default .deps/peer)")
    parser.add_argument("--imgsz", type=int, default=320, choices=(320, 640))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=120)
    parser.add_argument("--smoke", action="store_true", help="one small round: does it run at all")
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.images = 1, 16
    return args


def our_ms(bench, args):
    iterations = max(args.images // 4, 1)  # of a batch of four
    result = subprocess.run(
        [bench, f"--benchmark_filter=^BM_Loader/{args.imgsz}$", "--benchmark_format=json",
         f"--benchmark_min_time={0.01 * iterations}"], capture_output=True, text=True, check=True,
        timeout=600)
    return 1e3 / json.loads(result.stdout)["benchmarks"][0]["items_per_second"]


def peer_ms(python, yaml, args):
    result = subprocess.run([python, "-c", PEER_SCRIPT, yaml, str(args.imgsz), str(args.images)],
                            capture_output=True, text=True, timeout=600, check=False,
                            env=dict(os.environ, OMP_NUM_THREADS="1"))
    if result.returncode != 0:
        raise bench_util.BenchError(f"the peer: {result.stderr[-2000:]}")
    return float(result.stdout.split()[-1])


def measure():
    args = arguments()
    bench = bench_util.find_binary("loader_bench", bench_util.bench_dir())
    python = str(Path(bench_util.find_peer(args.peer)).parent / "python")
    # loader_bench makes its pictures there on its first run.
    yaml = Path(tempfile.gettempdir()) / "libreyolo-loader-bench" / "sample-v1" / "data.yaml"
    our_ms(bench, args)
    print(f"one loader worker, {args.imgsz} px, {bench_util.load_text()}")
    values = bench_util.alternate({
        "ours": lambda: our_ms(bench, args),
        "peer": lambda: peer_ms(python, str(yaml), args),
    }, args.rounds)
    for name, row in values.items():
        print(f"     {name}: median {statistics.median(row):.2f} ms an image")
    ratio, low, high = bench_util.ratio_interval(values["ours"], values["peer"])
    return bench_util.report("loader, time an image, ours / peer", ratio, 0.5,
                             detail=f"95 % {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    bench_util.main(measure)
