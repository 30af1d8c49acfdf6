#include "train/methods/preference/sorted_answers.h"

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

// Indices from the smallest value to the largest.
std::vector<size_t> Order(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  return order;
}

}  // namespace

SortedAnswers::SortedAnswers(const std::vector<double>& policy, const std::vector<double>& reference)
    : rivals_(policy.size() / 2), unpaired_(policy.size()) {
  const size_t pairs = policy.size() / 2;
  std::vector<double> difference(pairs), reference_difference(pairs), chosen(pairs), rejected(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    difference[i] = policy[2 * i] - policy[2 * i + 1];
    reference_difference[i] = reference[2 * i] - reference[2 * i + 1];
    chosen[i] = policy[2 * i] - reference[2 * i];
    rejected[i] = policy[2 * i + 1] - reference[2 * i + 1];
  }
  const std::vector<size_t> by_chosen = Order(chosen), by_rejected = Order(rejected), by_policy = Order(difference);
  std::sort(reference_difference.begin(), reference_difference.end());
  for (size_t place = 0; place < pairs; ++place) {
    rivals_[by_policy[place]] = reference_difference[place];
    unpaired_[2 * by_chosen[place]] = rejected[by_rejected[place]];
    unpaired_[2 * by_rejected[place] + 1] = chosen[by_chosen[place]];
  }
}

}  // namespace trireme
