#!/usr/bin/env bash
# ---
# tool_id: write_notes
# tool_type: bash
# version: "1.0.0"
# category: release
# description: Adds a section for a version to CHANGELOG.md
# executor: bash_runtime
# mutates_state: true
# writes: [CHANGELOG.md]
# parameters:
#   - {name: version, type: string, required: true, description: "The version of the section"}
# ---
set -euo pipefail
{
  sed -n 1,2p CHANGELOG.md
  printf '## %s\n\n- Describe the changes here.\n\n' "$PITON_PARAM_VERSION"
  sed 1,2d CHANGELOG.md
} > CHANGELOG.new
mv CHANGELOG.new CHANGELOG.md
printf '{"path": "CHANGELOG.md"}\n'
