#!/usr/bin/env bash
# Distillation of Qwen3-32B into Qwen3-8B with LoRA, 8 cards. Arguments go to `trireme train`.
# Memory per rank: 31.5 GiB of the card's 64 GiB.
NPROC_PER_NODE=8 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen3_8b_gkd_lora.yaml" "$@"
