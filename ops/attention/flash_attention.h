// Flash attention through ATen's own operators, called directly, for what cuDNN's does not take: documents
// side by side in one call by their cumulative lengths, and the first tokens of cached rows. No autograd, no
// lists: the operators' own files have both.
#pragma once

#include <string>

#include "ops/attention/attention_tiles.h"
#include "ops/attention/cached_attention.h"

namespace trireme {

// Heads without a shape: those of any shape.
std::string WhyNotFlash(const Heads& heads);

// As AttendPacked and AttendPackedBackward (packed_attention.h), if `tiles` are whole documents, each
// attending to itself. The log-sum-exp is in the operator's order.
bool AreDocuments(const RowTiles& tiles, int64_t length);
PartialAttention FlashPacked(const Heads& heads, double scale, const RowTiles& tiles);
Heads FlashPackedBackward(const Heads& heads, double scale, const RowTiles& tiles, const AttendedQueries& queries);

// As an implementation of cached_attention, if all rows have as many tokens before.
at::Tensor FlashCached(const Heads& heads, double scale, int64_t past);

}  // namespace trireme
