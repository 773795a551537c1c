#!/usr/bin/env python3
"""Makes resize_crc32.json: [source w, h, target w, h, seed, CRC-32] of OpenCV's 8-bit bilinear resize.

Needs numpy and opencv-python. The source's bytes come from a linear congruential generator that the
test repeats.
"""

import json
import random
import sys
import zlib
from pathlib import Path

import cv2
import numpy as np


def noise(width, height, seed):
    state, values = seed, bytearray()
    for _ in range(width * height * 3):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        values.append(state >> 24)
    return np.frombuffer(bytes(values), np.uint8).reshape(height, width, 3)


def main():
    rng = random.Random(7)
    sizes = [(1, 1, 1, 1), (1, 1, 9, 5), (2, 2, 1, 1), (64, 48, 32, 24), (64, 48, 32, 23),
             (64, 48, 64, 24), (65, 49, 32, 24), (7, 300, 64, 3), (300, 7, 3, 64)]
    sizes += [tuple(rng.randint(1, 160) for _ in range(4)) for _ in range(140)]
    rows = []
    for seed, (w, h, to_w, to_h) in enumerate(sizes, start=1):
        out = cv2.resize(noise(w, h, seed), (to_w, to_h), interpolation=cv2.INTER_LINEAR)
        rows.append([w, h, to_w, to_h, seed, zlib.crc32(np.ascontiguousarray(out).tobytes())])
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    (Path(__file__).parent / "resize_crc32.json").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
