#!/usr/bin/env bash
# Parameters arrive as variables; JSON on stdout becomes the result.
set -euo pipefail

printf 'Hello, %s!\n' "${PITON_PARAM_WHO:-world}" > hello.txt
printf '{"path": "hello.txt"}\n'
