#!/usr/bin/env bash
# QLoRA of Qwen2.5-72B, one card. Arguments go to `trireme train`.
# Memory per rank: 46.0 GiB of the card's 64 GiB.
NPROC_PER_NODE=1 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen2.5_72b_qlora.yaml" "$@"
