#!/usr/bin/env bash
# LoRA on a 14B model of the Qwen2 family, one card. Arguments go to `trireme train`.
# Memory per rank: 37.9 GiB of the card's 64 GiB.
NPROC_PER_NODE=1 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen2.5_14b_lora.yaml" "$@"
