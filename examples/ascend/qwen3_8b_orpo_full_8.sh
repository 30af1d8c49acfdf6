#!/usr/bin/env bash
# ORPO of all weights of Qwen3-8B, 8 cards. Arguments go to `trireme train`.
# Memory per rank: 30.8 GiB of the card's 64 GiB.
NPROC_PER_NODE=8 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen3_8b_orpo_full.yaml" "$@"
