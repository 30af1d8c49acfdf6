#!/usr/bin/env bash
# GRPO of Qwen3-30B-A3B, 2 hosts of 8 cards. Run it once with --hostfile HOSTS first, or on every host with its NODE_RANK,
# MASTER_ADDR and TRIREME_TOKEN (docs/launch.md). Further arguments go to `trireme train`.
# Memory per rank: 52.7 GiB of the card's 64 GiB.
hosts=()
if [ "${1:-}" = --hostfile ]; then hosts=("$1" "$2") && shift 2; else export NNODES=2; fi
NPROC_PER_NODE=8 exec "$(dirname "$0")/../../scripts/run_multinode.sh" "${hosts[@]}" "$(dirname "$0")/qwen3_30b_a3b_grpo.yaml" "$@"
