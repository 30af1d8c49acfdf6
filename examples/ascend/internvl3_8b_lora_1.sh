#!/usr/bin/env bash
# LoRA on InternVL3-8B, one card. Arguments go to `trireme train`.
# Memory per rank: 27.1 GiB of the card's 64 GiB.
NPROC_PER_NODE=1 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/internvl3_8b_lora.yaml" "$@"
