// Attention both ways on CPU memory: every query of a tile attends to all of its keys, as in a vision tower's frames
// and windows. Tiles share no query and no key, so that nothing is merged and gradients are rounded once. No autograd
// here.
#pragma once

#include <string>
#include <vector>

#include "ops/attention/attention_blocks.h"
#include "ops/attention/attention_tile.h"

namespace trireme {

// Why it cannot compute them; empty: it can. Listed under attention_tiles.
std::string WhyNoTwoWayBlocks(const Heads& heads, const RowTiles& tiles);

// heads: one row, one query head per key head; contiguous CPU tensors of fp32 or bf16. Returns [length, heads ·
// head_dim], and the log-sum-exp as [heads, length]; scores are divided by √head_dim.
AttentionResult TwoWayBlocks(const Heads& heads, const std::vector<AttentionTile>& tiles);
// output_gradient: shaped like the output, contiguous. The gradients have the layout of the heads.
Heads TwoWayBlocksBackward(const Heads& heads, const std::vector<AttentionTile>& tiles, const AttentionResult& result,
                           const at::Tensor& output_gradient);

}  // namespace trireme
