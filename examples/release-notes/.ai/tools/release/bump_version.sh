#!/usr/bin/env bash
# ---
# tool_id: bump_version
# tool_type: bash
# version: "1.0.0"
# category: release
# description: Writes a new version into VERSION
# executor: bash_runtime
# mutates_state: true
# writes: [VERSION]
# parameters:
#   - {name: version, type: string, required: true, description: "The new version"}
# ---
set -euo pipefail
new=$PITON_PARAM_VERSION
old=$(cat VERSION)
echo "$new" > VERSION
if [[ "$(printf '%s\n%s\n' "$old" "$new" | sort -V | tail -n 1)" != "$new" || "$old" == "$new" ]]; then
  echo "the new version $new does not come after $old"
  exit 1
fi
printf '{"old": "%s", "new": "%s"}\n' "$old" "$new"
