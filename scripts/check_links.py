#!/usr/bin/env python3
"""Fails when the client or the daemon would load LibTorch, CUDA or CUPTI, or the client more than it needs; when the worker
needs CUDA or CUPTI to start; or when one of them would look for libraries in the folder it is started in.

usage: check_links.py BIN_DIR
"""

import os
import re
import subprocess
import sys

CUDA = r"lib(torch_cuda|c10_cuda|cuda|cudart|cupti|cublas|cudnn|nvrtc|nvidia)"
HEAVY = r"lib(torch|c10|cuda|cudart|cupti|cublas|cudnn|nvrtc)"
FORBIDDEN = {
    "libreyolo": HEAVY + r"|lib(spdlog|sqlite3|curl|simdjson|yaml-cpp)",
    "libreyolod": HEAVY + r"|lib(turbojpeg|png|webp)",
}


def loaded_libraries(path):
    """Names of all libraries that the executable would load, direct or not."""
    out = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in out.splitlines() if line.strip()]


def dynamic_entries(path, tag):
    """Values of one tag in the executable's own dynamic section: "NEEDED", "RUNPATH"."""
    out = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    return re.findall(rf"\({tag}\).*\[(.*)\]", out)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    bad = []
    worker = f"{sys.argv[1]}/libreyolo-worker"
    programs = [f"{sys.argv[1]}/{name}" for name in FORBIDDEN] + ([worker] if os.path.exists(worker) else [])
    for path in programs:
        for run_path in dynamic_entries(path, "RUNPATH") + dynamic_entries(path, "RPATH"):
            if not all(folder.startswith(("/", "$ORIGIN")) for folder in run_path.split(":")):
                bad.append(f"{path} looks for libraries in the current folder: run path {run_path}")
        if path == worker:
            bad += [f"{path} needs {name} to start" for name in dynamic_entries(path, "NEEDED") if re.match(CUDA, name)]
    for name, pattern in FORBIDDEN.items():
        for library in loaded_libraries(f"{sys.argv[1]}/{name}"):
            if re.match(pattern, library):
                bad.append(f"{name} loads {library}")
    for line in bad:
        print(f"check_links: {line}", file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
