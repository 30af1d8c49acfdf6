#!/usr/bin/env bash
# LoRA on Qwen3-8B, data parallel over 8 cards. Arguments go to `trireme train`.
# Memory per rank: 22.2 GiB of the card's 64 GiB.
NPROC_PER_NODE=8 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen3_8b_lora.yaml" "$@"
