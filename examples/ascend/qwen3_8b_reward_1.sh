#!/usr/bin/env bash
# A reward model of Qwen3-8B with LoRA, one card. Arguments go to `trireme train`.
# Memory per rank: 27.5 GiB of the card's 64 GiB.
NPROC_PER_NODE=1 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/qwen3_8b_reward.yaml" "$@"
