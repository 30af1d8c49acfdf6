// Answers as tokens, each with its prompt before it and only its own tokens learnt. The prompt is the longest beginning
// that its tokens share with prompt and answer encoded together, as in TRL: a token across the border is the answer's.
#pragma once

#include <cstdint>
#include <vector>

#include "data/answer_samples.h"
#include "data/tokenise.h"

namespace trireme {

// A row for each answer, in their order; those of a pair have the same prompt tokens. An input error where a prompt
// leaves no room for an answer; it does not name the place.
std::vector<StoredRow> TokeniseAnswers(const AnswerSample& sample, const SampleTokenizer& with);

// The same for a model whose vocabulary has that many tokens; others are input errors.
std::vector<StoredRow> TokeniseAnswers(const AnswerSample& sample, const SampleTokenizer& with, int64_t vocabulary);

}  // namespace trireme
