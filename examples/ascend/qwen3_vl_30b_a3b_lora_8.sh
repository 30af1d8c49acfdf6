#!/usr/bin/env bash
# LoRA on Qwen3-VL-30B-A3B, 8 cards: experts over all of them. Arguments go to `trireme train`.
# Memory per rank: 12.8 GiB of the card's 64 GiB.
NPROC_PER_NODE=8 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen3_vl_30b_a3b_lora.yaml" "$@"
