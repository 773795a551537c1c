#!/usr/bin/env bash
# Makes .deps/api-client: the environment of the example client (docs/examples/python), with what tests of YAML files need.
# Tests that want it are skipped by name where it is not.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
"$root/docs/examples/python/make_env.sh" "$root/.deps/api-client"
"$root/.deps/api-client/bin/python" -c 'import yaml' 2>/dev/null ||
  "$root/.deps/api-client/bin/pip" install --quiet pyyaml
