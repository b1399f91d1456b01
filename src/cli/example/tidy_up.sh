#!/usr/bin/env bash
# ---
# tool_id: tidy_up
# tool_type: bash
# version: "1.0.0"
# category: examples
# description: Removes too much and then fails
# executor: bash_runtime
# mutates_state: true
# ---
echo "removing notes.txt and emptying hello.txt …" >&2
rm -f notes.txt
: > hello.txt
exit 3
