#!/usr/bin/env bash
@header@set -euo pipefail

# Never put a parameter into a command line unquoted. JSON on stdout becomes the result, other text `{"stdout": …}`.
printf 'Hello, %s!\n' "$PITON_PARAM_WHO"
