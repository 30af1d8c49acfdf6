#!/usr/bin/env bash
# scripts/run.sh RUN.yaml [arguments of `trireme train`]: trains on this host, with one rank per device, or
# NPROC_PER_NODE. ASCEND_RT_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES chooses devices. With RANK_TABLE_FILE the table does; of
# several servers it is scripts/run_multinode.sh that runs. Ctrl-C or SIGTERM: the run saves and stops.
set -euo pipefail
. "$(dirname "$0")/lib/launch.sh"
[ $# -gt 0 ] || die "usage: scripts/run.sh RUN.yaml"
program=$(find_program)
if [ -n "${RANK_TABLE_FILE:-}" ]; then
  use_rank_table "$RANK_TABLE_FILE"
  [ "$TABLE_SERVERS" = 1 ] || exec "$(dirname "$0")/run_multinode.sh" "$@"
fi
ranks=$(ranks_a_host "$program")
mpirun_options "$ranks" "$program"
PLAN=("$program" train "$@" --set 'data.train=[]' --dry-run --world "$ranks")
run_and_pass_signals "${MPIRUN[@]}" -n "$ranks" "${RANK[@]}" train "$@"
