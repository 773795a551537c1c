#!/usr/bin/env bash
# Makes the virtual environment of the peer program in .deps/peer (about 5 GB with its CUDA wheels; only the yardsticks
# need it). Does nothing when it is there. Another place: peer_env.sh FOLDER.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-$root/.deps/peer}
if [ -x "$folder/bin/libreyolo" ] && [ -e "$folder/.complete" ]; then
  exit 0
fi
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet libreyolo==1.6.0 torch==2.11.0 torchvision==0.26.0
touch "$folder/.complete"
