// How many times parts of an answer's text count in the loss: marks of agents' formats, calls of tools, empty think
// blocks. Knows bytes, no tokens and no templates.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class LossParts {
 public:
  LossParts() = default;  // everything counts once
  // `entries` are those of data.loss_weights: BEGIN...END=WEIGHT, TEXT=WEIGHT or TEXT=WEIGHT REST. Others are input
  // errors.
  LossParts(const std::vector<std::string>& entries, bool skip_empty_think);

  bool empty() const { return spans_.empty() && marks_.empty() && !skip_empty_think_; }
  // Of each byte of an answer, which has no end of its turn.
  std::vector<float> Weights(std::string_view answer) const;

 private:
  // From `begin` to the next `end`, with both.
  struct LossSpan {
    std::string begin, end;
    float weight = 1;
  };
  // With what follows, up to the next mark.
  struct LossMark {
    std::string text;
    float weight = 1, rest = 1;
  };

  void Add(const std::string& entry);
  void WeighSpans(std::string_view answer, std::vector<float>& weights) const;
  void WeighMarks(std::string_view answer, std::vector<float>& weights) const;
  const LossMark* MarkAt(std::string_view text) const;  // the longest that it begins with; null: none

  std::vector<LossSpan> spans_;
  std::vector<LossMark> marks_;
  bool skip_empty_think_ = false;
};

}  // namespace trireme
