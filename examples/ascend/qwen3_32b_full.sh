#!/usr/bin/env bash
# Full fine-tuning of Qwen3-32B, tensor parallel over 8 cards. Arguments go to `trireme train`.
# Memory per rank: 28.5 GiB of the card's 64 GiB.
NPROC_PER_NODE=8 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen3_32b_full.yaml" "$@"
