#!/usr/bin/env bash
# LoRA on Qwen2-7B, one card. Arguments go to `trireme train`.
# Memory per rank: 20.5 GiB of the card's 64 GiB.
NPROC_PER_NODE=1 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen2_7b_lora.yaml" "$@"
