#!/usr/bin/env bash
# Makes a virtual environment with what the example needs, and the stubs from the protos, by stock tools only.
# usage: make_env.sh [FOLDER]    default .deps/api-client; does nothing when it is whole
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
folder=${1:-$root/.deps/api-client}
if [ ! -e "$folder/.complete" ]; then
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --requirement "$here/requirements.txt"
  touch "$folder/.complete"
fi
# The stubs are made anew each time: they are quick, and then they fit the protos.
mkdir -p "$folder/stubs"
"$folder/bin/python" -m grpc_tools.protoc --proto_path "$root/proto" --python_out "$folder/stubs" \
  --grpc_python_out "$folder/stubs" "$root"/proto/libreyolo/profile/v1/*.proto
