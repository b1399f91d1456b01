#!/usr/bin/env bash
set -euo pipefail

# Cargo takes an empty variable for a path.
for name in CARGO_HOME RUSTUP_HOME CARGO_TARGET_DIR; do
  [[ -n "${!name:-}" ]] || unset "$name"
done

cargo fmt --check >&2
if [[ "$PITON_PARAM_CLIPPY" == true ]]; then
  cargo clippy --all-targets --locked -- -D warnings >&2
fi
printf '{"clean": true}\n'
