#!/usr/bin/env bash
set -euo pipefail

cargo fmt --check >&2
cargo clippy --all-targets --locked -- -D warnings >&2
printf '{"clean": true}\n'
