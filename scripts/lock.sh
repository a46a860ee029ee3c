#!/usr/bin/env bash
# Renew requirements.lock from pyproject.toml: every version pinned, every file hashed, for all platforms and
# Python versions at once (docs/adr/0003). Pins that still fit stay; --upgrade takes the newest of everything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
.venv/bin/python -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check uv
"$tools/bin/uv" pip compile pyproject.toml --group dev --extra tools --extra connect \
    --universal --python-version 3.11 --generate-hashes \
    --no-header --no-emit-index-url --no-emit-find-links --quiet \
    --output-file requirements.lock "$@"
