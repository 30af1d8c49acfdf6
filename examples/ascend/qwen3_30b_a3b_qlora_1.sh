#!/usr/bin/env bash
# QLoRA of Qwen3-30B-A3B, one card. Arguments go to `trireme train`.
# Memory per rank: 16.5 GiB of the card's 64 GiB.
NPROC_PER_NODE=1 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen3_30b_a3b_qlora.yaml" "$@"
