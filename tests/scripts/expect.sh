# For script tests to source: `expect_refusal TEXT COMMAND…` expects exit status 2 (or WANT_STATUS) and TEXT in the output,
# whatever else is printed; `expect_one_line` expects only that line. A failure is counted and printed.
failures=0

fail() {
  echo "FAILED: $1"
  head -20 <<<"$output"
  failures=$((failures + 1))
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
