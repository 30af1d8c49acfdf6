// RouterRule: how a router chooses experts for a token, as plain values. No tensor: ops/router/router.h
// follows it.
#pragma once

#include <cstdint>

namespace trireme {

struct RouterRule {
  enum class Scores { kSoftmax, kSigmoid };
  // The score of a group of experts, if experts are chosen from only some groups.
  enum class GroupScore { kLargest, kSumOfTwo };

  int64_t experts = 0;
  int64_t top_k = 1;
  Scores scores = Scores::kSoftmax;
  int64_t groups = 1;      // of consecutive experts; divides experts
  int64_t top_groups = 1;  // groups to choose from
  GroupScore group_score = GroupScore::kLargest;
  bool correction_bias = false;  // added to the scores for the choice only, not for the weights
  bool normalise = false;        // a token's weights add up to 1
  double normalise_eps = 0;      // added to the normalising sum
  double scale = 1;              // of the weights, applied last

  bool operator==(const RouterRule&) const = default;
};

}  // namespace trireme
