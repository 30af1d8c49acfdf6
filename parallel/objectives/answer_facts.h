// What objectives over whole answers know of a micro batch and of its batch. In host memory; no torch.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/pass/batch_totals.h"

namespace trireme {

// Of each document as an answer: a number each.
struct AnswerFacts {
  std::vector<int64_t> tokens = {};    // labels that count in its log-probability, over all context ranks
  std::vector<int64_t> trained = {};   // labels that are trained, the prompt's among them where it is learnt, too
  std::vector<double> values = {};     // what the data says of it: its label, its pair's margin, or its advantage
  std::vector<double> reference = {};  // its log-probability by the reference; empty: there is none
  // By loss that compares answers over the whole batch (aot): what each is compared with there.
  std::vector<std::vector<double>> rivals = {};
};

// Of the answers of the global batch.
struct AnswerTotals {
  int64_t chosen = 0;              // trained labels of chosen answers, or of those whose label is true
  int64_t rejected = 0;            // trained labels of the others
  int64_t desirable = 0;           // single answers whose label is true
  double kl = 0;                   // how far the policy is from the reference, where an objective wants it
  std::vector<double> state = {};  // what the objective keeps from step to step (Objective::NextState)

  double per_chosen() const { return BatchTotals::Reciprocal(chosen); }
  double per_rejected() const { return BatchTotals::Reciprocal(rejected); }
};

}  // namespace trireme
