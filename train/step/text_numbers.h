// TextNumbers: what a model gives whole texts: of each its vector, its score or its labels' scores. Forward only; what
// is learnt from them is in train/methods/retrieval.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parallel/objectives/objective.h"
#include "parallel/objectives/text_facts.h"
#include "parallel/pass/pass_batch.h"
#include "session/session.h"

namespace trireme {

// The places of a micro batch's documents among all texts of the batch: those of a row follow each other. firsts: of
// each row of the batch the index of its first text.
std::vector<int64_t> TextPlaces(const PassInput& input, std::span<const int64_t> firsts);

class TextNumbers {
 public:
  // The session, whose stage is one of whole texts, outlives it. Refuses tokens of a generative reranker that its
  // tokenizer does not have as one.
  explicit TextNumbers(Session& session);

  int64_t of_each() const { return of_each_; }  // as many numbers as a text has
  // What all batches have in common.
  const TextTotals& totals() const { return totals_; }
  const Objective& objective() const { return *objective_; }

  // The numbers of all texts of a batch, in the order of rows and documents: [texts, of_each] fp32, on every rank.
  // firsts: as above, with the number of texts at the end. loss: the batch's, where the objective knows it; nullptr:
  // nobody asks. Collective.
  at::Tensor Of(const std::vector<PassInput>& inputs, PassOptions options, std::span<const int64_t> firsts,
                double* loss) const;

  // The same of texts alone, as lists of token ids, side by side in few rows without padding; text by text. Collective.
  std::vector<float> OfTexts(const std::vector<std::vector<int64_t>>& texts) const;

 private:
  Session& session_;
  const std::unique_ptr<Objective> objective_;
  const int64_t of_each_;
  TextTotals totals_;
};

}  // namespace trireme
