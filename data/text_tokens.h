// Whole texts as tokens: a row of as many documents as a sample has texts.
#pragma once

#include "data/row_store.h"
#include "data/text_samples.h"
#include "data/tokenise.h"

namespace trireme {

// What a store says of a row's labels: none of its documents is positive, some are, all are. Of a classified text: the
// first of its values.
inline constexpr float kNonePositive = 0, kSomePositive = 1, kAllPositive = 2;

StoredRow TokeniseTexts(const TextUnit& sample, const SampleTokenizer& with, const TextOptions& options);

}  // namespace trireme
