#!/usr/bin/env bash
# Llama-3-8B from random weights, 8 cards. Arguments go to `trireme train`.
# Memory per rank: 37.5 GiB of the card's 64 GiB.
NPROC_PER_NODE=8 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/llama3_8b_pretrain.yaml" "$@"
