#!/usr/bin/env python3
"""Fails when the client or the daemon would load LibTorch, CUDA or CUPTI, or the client more than it needs.

usage: check_links.py BIN_DIR
"""

import re
import subprocess
import sys

HEAVY = r"lib(torch|c10|cuda|cudart|cupti|cublas|cudnn|nvrtc)"
FORBIDDEN = {
    "libreyolo": HEAVY + r"|lib(spdlog|sqlite3|curl|simdjson|yaml-cpp)",
    "libreyolod": HEAVY + r"|lib(turbojpeg|png|webp)",
}


def loaded_libraries(path):
    """Names of all libraries that the executable would load, direct or not."""
    out = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in out.splitlines() if line.strip()]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    bad = []
    for name, pattern in FORBIDDEN.items():
        for library in loaded_libraries(f"{sys.argv[1]}/{name}"):
            if re.match(pattern, library):
                bad.append(f"{name} loads {library}")
    for line in bad:
        print(f"check_links: {line}", file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
