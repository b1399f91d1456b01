#!/bin/sh
# piton hook stub @VERSION@ @CHECKSUM@
# Made by `piton hooks install`; `piton hooks uninstall` puts back what was here before. It is not meant to be
# edited: a hook of your own belongs into the file NAME.before-piton beside it, which runs first.
# before: @BEFORE@
piton_hook=@HOOK@
piton_reads_input=@READS_INPUT@
piton_within_runs=@WITHIN_RUNS@
piton_fail_closed=@FAIL_CLOSED@
piton_program=@PROGRAM@
# end of settings

unset piton_input
case $0 in
  */*) piton_before=${0%/*}/$piton_hook.before-piton ;;
  *) piton_before=./$piton_hook.before-piton ;;
esac
if [ -f "$piton_before" ] && [ -x "$piton_before" ]; then
  if [ "$piton_reads_input" = yes ]; then
    # Both are to read all that git says. The dot keeps the line ends at its end.
    if ! piton_input=$(cat && echo .); then
      echo "piton: the input of \`$piton_hook\` could not be read" >&2
      if [ "$piton_fail_closed" = yes ]; then exit 1; fi
      piton_input=.
    fi
    printf %s "${piton_input%.}" 2>/dev/null | "$piton_before" "$@" || exit $?
  else
    "$piton_before" "$@" || exit $?
  fi
fi

if [ ! -f "$piton_program" ] || [ ! -x "$piton_program" ]; then
  piton_program=
  if command -v piton >/dev/null 2>&1; then piton_program=piton; fi
fi
# Outside of a run these two have nothing to do, and every commit waits for them.
if [ "$piton_within_runs" = yes ] && [ -n "$piton_program" ]; then
  piton_own=${GIT_DIR:-.git}
  if [ -d "$piton_own" ] && [ ! -s "$piton_own/piton/@LOCK@" ] && [ ! -e "$piton_own/piton/@WAITING@" ]; then
    exit 0
  fi
fi
if [ -n "$piton_program" ]; then
  if [ -n "${piton_input+read}" ]; then
    printf %s "${piton_input%.}" 2>/dev/null | "$piton_program" hooks run "$piton_hook" -- "$@"
  else
    "$piton_program" hooks run "$piton_hook" -- "$@"
  fi
  piton_status=$?
  # A panic, a program that cannot be started, a signal. Ctrl-C (130) is an answer.
  case $piton_status in
    101 | 126 | 127 | 12[89] | 13[1-9] | 1[4-9]? | 2??) piton_problem="piton broke down (exit code $piton_status)" ;;
    *) exit "$piton_status" ;;
  esac
else
  piton_problem='piton is not there'
fi

if [ "$piton_fail_closed" != yes ]; then
  echo "piton: $piton_problem: nothing was checked by \`$piton_hook\`, and git goes on" >&2
  exit 0
fi
if [ "$piton_hook" = pre-receive ]; then
  echo "piton: $piton_problem: nothing was checked by \`$piton_hook\`, and the push is refused" >&2
  echo "hint: the administrator of this repository can run \`piton hooks status\` there" >&2
else
  echo "piton: $piton_problem: nothing was checked by \`$piton_hook\`, and \`hooks.fail_closed\` stops git" >&2
  echo "hint: install piton; or leave hooks out this time: git -c core.hooksPath=/dev/null ..." >&2
fi
exit 1
