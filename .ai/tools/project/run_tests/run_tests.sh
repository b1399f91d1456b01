#!/usr/bin/env bash
set -euo pipefail

# Cargo takes an empty variable for a path.
for name in CARGO_HOME RUSTUP_HOME CARGO_TARGET_DIR; do
  [[ -n "${!name:-}" ]] || unset "$name"
done

# A snapshot that differs is a failure, not a file to leave behind.
export INSTA_UPDATE=no
cargo nextest run --locked --no-fail-fast -E "${PITON_PARAM_FILTER:-all()}" >&2
printf '{"passed": true}\n'
