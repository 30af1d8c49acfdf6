#!/usr/bin/env bash
# DPO of all weights of Qwen3-8B, 8 cards. Arguments go to `trireme train`.
# Memory per rank: 34.6 GiB of the card's 64 GiB.
NPROC_PER_NODE=8 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen3_8b_dpo_full.yaml" "$@"
