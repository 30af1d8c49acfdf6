# For script tests to source: `expect_refusal TEXT COMMAND…` expects exit status 2 (or WANT_STATUS) and TEXT in the output,
# whatever else is printed; `expect_one_line` expects only that line. A failure is counted and printed; `finish`, the last
# line of every such script, reports them to ctest.
failures=0
[ "$(tail -n 1 "$0")" = finish ] || { echo "$0: its last line is not finish: its failures would go unnoticed" >&2; exit 1; }

fail() {
  echo "FAILED: $1"
  head -20 <<<"$output"
  failures=$((failures + 1))
  [ -z "${GTEST_FAIL_FAST:-}" ] || exit 1
}

expect_refusal() {
  local text=$1 status=0 words
  shift
  output=$("$@" 2>&1) || status=$?
  words=$(tr '\n' ' ' <<<"$output" | tr -s ' ')
  if [ "$status" != "${WANT_STATUS:-2}" ]; then
    fail "status $status, wanted ${WANT_STATUS:-2}: $*"
  elif ! grep -qF -- "$text" <<<"$words"; then
    fail "'$text' is not in the output of: $*"
  else
    echo "ok: $text"
  fi
}

expect_one_line() {
  expect_refusal "$@"
  [ "$(grep -c . <<<"$output")" = 1 ] || fail "more than one line, or none: ${*:2}"
}

finish() { [ "$failures" = 0 ] || { echo "$failures failed"; exit 1; }; }
