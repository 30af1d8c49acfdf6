#!/usr/bin/env bash
# Serves Qwen3-32B over 8 cards, tensor parallel, with LoRA adapters from adapters/ that are loaded at run time. Put the
# model's Hugging Face directory at models/Qwen3-32B and the API keys, one per line, at keys.txt. Arguments go to
# `trireme serve`.
# Memory per rank: 7.6 GiB of weights and 32 GiB of keys and values of the card's 64 GiB.
cd "$(dirname "$0")/../.." || exit
NPROC_PER_NODE=8 exec scripts/serve.sh --model models/Qwen3-32B --set model.dtype=bf16 --set parallel.tensor=8 \
  --kv-cache-gib 32 --max-rows 64 --max-model-len 32768 --host 0.0.0.0 --api-key-file keys.txt \
  --adapter-directory adapters "$@"
