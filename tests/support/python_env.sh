#!/usr/bin/env bash
# Makes .deps/api-client: the environment of the example client (docs/examples/python), with what tests of manifests need.
# Tests that want it are skipped by name where it is not.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
"$root/docs/examples/python/make_env.sh" "$root/.deps/api-client"
# The Kubernetes client's classes know which fields a manifest may have.
"$root/.deps/api-client/bin/python" -c 'import yaml, kubernetes' 2>/dev/null ||
  "$root/.deps/api-client/bin/pip" install --quiet pyyaml kubernetes==37.0.2
