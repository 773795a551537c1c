#!/usr/bin/env python3
"""Makes color_crc32.json: [hue, saturation, value shift, CRC-32] of OpenCV's way through 8-bit HSV.

Needs numpy and opencv-python. The picture is the noise of make_resize_cases.py, 512 x 256, seed 5.
"""

import json
import sys
import zlib
from pathlib import Path

import cv2
import numpy as np

from make_resize_cases import noise

SHIFTS = ((0, 0, 0), (5, 30, 30), (-5, -30, -30), (3, 0, 0), (0, 17, 0), (0, 0, -29), (-1, 29, -7),
          (4, -13, 22))


def main():
    rows = []
    image = noise(512, 256, 5)
    for hue, saturation, value in SHIFTS:
        hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV).astype(np.int16)
        hsv[..., 0] = (hsv[..., 0] + hue) % 180
        hsv[..., 1] = np.clip(hsv[..., 1] + saturation, 0, 255)
        hsv[..., 2] = np.clip(hsv[..., 2] + value, 0, 255)
        out = cv2.cvtColor(hsv.astype(np.uint8), cv2.COLOR_HSV2RGB)
        rows.append([hue, saturation, value, zlib.crc32(np.ascontiguousarray(out).tobytes())])
    text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    (Path(__file__).parent / "color_crc32.json").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
