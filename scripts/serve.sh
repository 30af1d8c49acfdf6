#!/usr/bin/env bash
# scripts/serve.sh [arguments of `trireme serve`]: serves a model on this host, with one rank per device, or
# NPROC_PER_NODE. ASCEND_RT_VISIBLE_DEVICES chooses devices. Ctrl-C or SIGTERM: running answers end, then the server.
set -euo pipefail
. "$(dirname "$0")/lib/launch.sh"
[ $# -gt 0 ] || die "usage: scripts/serve.sh --model DIR"
program=$(find_program)
ranks=$(ranks_a_host "$program")
mpirun_options "$ranks" "$program"
run_and_pass_signals "${MPIRUN[@]}" -n "$ranks" "${RANK[@]}" serve "$@"
