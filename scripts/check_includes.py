#!/usr/bin/env python3
"""Checks what may include what: the layers of docs/ARCHITECTURE.md, and the rules that keep heavy headers apart."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#include\s+(["<])([^">]+)[">]', re.M)

# Folder -> folders of ours that it may include, besides itself. The longest matching folder decides.
LAYERS = {
    "common/base": [],
    "common/json": ["common/base"],
    "common/job": ["common/base", "common/json"],
    "common/trace": ["common/base", "common/json", "common/job"],
    "common/analysis": ["common/base", "common/json", "common/job", "common/trace"],
    "common/rpc": ["common"],
    "client": ["common/base", "common/json", "common/rpc/status_convert.h"],
    "server/gpu": ["common/base"],
    "server/log": ["common/base"],
    "server/worker_link": ["common/base", "common/job"],
    "server/daemon": ["common", "server/gpu", "server/worker_link", "server/log"],
    "server/worker": ["common/base", "common/json", "common/job", "common/trace", "server/gpu", "server/worker_link",
                      "server/log"],
    "server/worker/data": ["common/base", "common/json", "common/job"],
    "server/worker/yolo9": ["common/base", "common/json", "server/worker/torch_call.h", "server/worker/host_memory.h"],
    "server/worker/capture": ["common/base", "common/json", "common/job", "common/trace"],
}
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
TORCH_FOLDERS = ("server/worker/yolo9", "server/worker/workload", "server/worker/capture", "server/worker/torch_call",
                 "server/worker/host_memory", "server/worker/worker.cc", "server/worker/main.cc")
# Third parties that stay in the one place that wraps them.
ONLY_IN = {
    r"^spdlog/": ["server/log/"],
    r"^CLI/": ["client/flags.cc"],
    r"^sqlite3\.h": ["server/daemon/store/sqlite.cc", "server/daemon/store/sqlite_faults.cc"],
    r"^curl/": ["server/daemon/inputs/hub_download.cc"],
    r"^yaml-cpp/": ["server/worker/data/"],
    r"^prometheus/": ["server/daemon/metrics/"],
    r"^simdjson": ["common/json/", "common/trace/", "server/worker/data/"],
}


def layer_of(path):
    best = max((layer for layer in LAYERS if path.startswith(layer + "/")), key=len, default=None)
    return best


def check(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    problems = []
    includes = INCLUDE.findall(text)
    if path.endswith(".h") and "#pragma once" not in text:
        problems.append("lacks #pragma once")
    layer = layer_of(path)
    own = [name for kind, name in includes if kind == '"' and name.split("/")[0] in ("common", "client", "server", "tests")]
    if path.endswith(".cc") and includes:
        header = path[:-3] + ".h"
        if (ROOT / header).exists() and includes[0][1] != header:
            problems.append(f"does not include its own header {header} first")
    for name in own:
        if not (ROOT / name).exists():
            problems.append(f"includes {name}, which does not exist")
        if layer is None or name.startswith(layer + "/"):
            continue
        if not any(name.startswith(allowed + "/") or name == allowed for allowed in LAYERS[layer]):
            problems.append(f"({layer}) may not include {name}")
    names = [name for _, name in includes]
    for name in names:
        if name.startswith(".") or "/../" in name:
            problems.append(f"includes {name} by a relative path")
        for pattern, places in ONLY_IN.items():
            if re.match(pattern, name) and layer and not any(path.startswith(place) for place in places):
                problems.append(f"may not include {name}: only {', '.join(places)} does")
    sees_torch = any(TORCH.match(name) for name in names)
    if sees_torch and layer and not path.startswith(TORCH_FOLDERS):
        problems.append("may not see LibTorch")
    if sees_torch and any(name.startswith("spdlog/") or name.endswith(".pb.h") for name in names):
        problems.append("sees LibTorch together with spdlog or a generated proto")
    return [f"{path}: {problem}" for problem in problems]


def main():
    files = subprocess.run(["git", "ls-files", "*.h", "*.cc"], cwd=ROOT, check=True, capture_output=True,
                           text=True).stdout.split()
    problems = [problem for path in files for problem in check(path)]
    for problem in problems:
        print(f"check_includes: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
