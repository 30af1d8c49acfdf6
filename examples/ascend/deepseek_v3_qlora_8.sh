#!/usr/bin/env bash
# QLoRA of DeepSeek-V3, the eight cards of one host. Arguments go to `trireme train`.
# Memory per rank: 42.7 GiB of the card's 64 GiB.
NPROC_PER_NODE=8 exec "$(dirname "$0")/../../scripts/run.sh" "$(dirname "$0")/deepseek_v3_qlora.yaml" "$@"
