#!/usr/bin/env bash
# Fetches LibTorch 2.11 (scripts/libtorch_wheels.txt: versions and digests) and unpacks what a CPU machine needs into
# .deps/libtorch: headers, libtorch_cpu, libc10, libgomp, libcupti, libcudart. The gigabytes of CUDA libraries stay in
# their wheels; a GPU machine has them already. Does nothing when that folder is complete.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
deps=$root/.deps
target=$deps/libtorch
stamp=$target/.complete
want=$(sha256sum "$root/scripts/libtorch_wheels.txt" | cut -d' ' -f1)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then
  exit 0
fi
mkdir -p "$deps"
work=$(mktemp -d "$deps/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "Fetching LibTorch (0.54 GB) ..." >&2
# The wheel's Python tag does not matter: nothing of Python is unpacked or run.
python3 -m pip download --quiet --no-deps --only-binary=:all: --require-hashes --python-version 3.11 \
  --implementation cp --abi cp311 --abi none \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 \
  --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
  -r "$root/scripts/libtorch_wheels.txt" -d "$work/wheels" || {
  echo "error: LibTorch's wheels could not be fetched" >&2
  echo "hint:  this needs a network, or pip's own settings (PIP_INDEX_URL, PIP_FIND_LINKS) for a mirror" >&2
  exit 1
}
mkdir "$work/tree"
unzip -q "$work"/wheels/torch-*.whl 'torch/include/*' torch/lib/libtorch_cpu.so torch/lib/libc10.so \
  'torch/lib/libgomp*' 'torch-*.dist-info/licenses/*' -d "$work/tree"
for wheel in "$work"/wheels/nvidia_cuda_{cupti,runtime}-*.whl; do
  unzip -q "$wheel" 'nvidia/cu13/include/*' 'nvidia/cu13/lib/lib*.so.*' '*/licenses/*' -d "$work/tree"
done
echo "$want" >"$work/tree/.complete"
rm -rf "$target"
mv "$work/tree" "$target"
