// SortedAnswers: for losses that compare whole distributions (aot): pairs of a batch in the order of their
// log-probabilities, and what stands at each one's place in the list it is held against. No torch.
#pragma once

#include <cstddef>
#include <vector>

namespace trireme {

class SortedAnswers {
 public:
  // Log-probabilities by document, the two of a pair beside each other, the chosen one first.
  SortedAnswers(const std::vector<double>& policy, const std::vector<double>& reference);

  // By the document's pair: of the policy's differences (chosen less rejected) sorted, the reference's at its place.
  double rival(size_t document) const { return rivals_[document / 2]; }
  // Of the chosen log-ratios sorted, the rejected one at its place; of a rejected document the chosen one.
  double unpaired_rival(size_t document) const { return unpaired_[document]; }

 private:
  std::vector<double> rivals_, unpaired_;
};

}  // namespace trireme
