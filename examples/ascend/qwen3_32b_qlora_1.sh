#!/usr/bin/env bash
# QLoRA of Qwen3-32B, one card. Arguments go to `trireme train`.
# Memory per rank: 22.4 GiB of the card's 64 GiB.
NPROC_PER_NODE=1 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen3_32b_qlora.yaml" "$@"
