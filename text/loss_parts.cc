#include "text/loss_parts.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr char kSpanDots[] = "...", kBlanks[] = " \t\r\n";
constexpr float kMostPartWeight = 1000;  // more is a mistake

Error WrongPart(const std::string& entry) {
  return InputError("data.loss_weights: '", entry,
                    "': wanted BEGIN...END=WEIGHT, TEXT=WEIGHT or TEXT=WEIGHT REST, with ", "weights from 0 to ",
                    kMostPartWeight, ", such as <tool_call>...</tool_call>=2");
}

// The number that `text` begins with, which is cut off with the blanks around it.
float TakeWeight(std::string_view& text, const std::string& entry) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  float weight = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  if (error != std::errc() || !(weight >= 0 && weight <= kMostPartWeight)) throw WrongPart(entry);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return weight;
}

void Multiply(std::vector<float>& weights, size_t begin, size_t end, float by) {
  for (size_t i = begin; i < end; ++i) weights[i] *= by;
}

size_t AfterBlanks(std::string_view text, size_t from) {
  return std::min(text.find_first_not_of(kBlanks, from), text.size());
}

// How many bytes an empty think block has with the blanks after it; 0: the answer does not begin with one.
size_t EmptyThink(std::string_view answer) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  const size_t inside = answer.starts_with(kOpen) ? kOpen.size() : 0;
  const size_t close = AfterBlanks(answer, inside);
  return answer.substr(close).starts_with(kClose) ? AfterBlanks(answer, close + kClose.size()) : 0;
}

}  // namespace

LossParts::LossParts(const std::vector<std::string>& entries, bool skip_empty_think)
    : skip_empty_think_(skip_empty_think) {
  for (const std::string& entry : entries) Add(entry);
}

void LossParts::Add(const std::string& entry) {
  const size_t equals = entry.rfind('=');
  if (equals == std::string::npos || equals == 0) throw WrongPart(entry);
  const std::string text = entry.substr(0, equals);
  std::string_view numbers = std::string_view(entry).substr(equals + 1);
  const float weight = TakeWeight(numbers, entry);
  const size_t dots = text.find(kSpanDots);
  if (dots != std::string::npos) {
    LossSpan span{text.substr(0, dots), text.substr(dots + sizeof kSpanDots - 1), weight};
    if (span.begin.empty() || span.end.empty() || !numbers.empty()) throw WrongPart(entry);
    return spans_.push_back(std::move(span));
  }
  const float rest = numbers.empty() ? weight : TakeWeight(numbers, entry);
  if (!numbers.empty()) throw WrongPart(entry);
  marks_.push_back({text, weight, rest});
}

void LossParts::WeighSpans(std::string_view answer, std::vector<float>& weights) const {
  for (const LossSpan& span : spans_) {
    for (size_t begin = answer.find(span.begin); begin != std::string_view::npos;) {
      const size_t end = answer.find(span.end, begin + span.begin.size());
      if (end == std::string_view::npos) break;  // it is cut off: nothing says where it would end
      Multiply(weights, begin, end + span.end.size(), span.weight);
      begin = answer.find(span.begin, end + span.end.size());
    }
  }
}

const LossParts::LossMark* LossParts::MarkAt(std::string_view text) const {
  const LossMark* longest = nullptr;
  for (const LossMark& mark : marks_) {
    if (text.starts_with(mark.text) && (longest == nullptr || mark.text.size() > longest->text.size())) longest = &mark;
  }
  return longest;
}

void LossParts::WeighMarks(std::string_view answer, std::vector<float>& weights) const {
  if (marks_.empty()) return;
  float rest = 1;
  for (size_t at = 0; at < answer.size();) {
    const LossMark* mark = MarkAt(answer.substr(at));
    if (mark == nullptr) {
      weights[at++] *= rest;
      continue;
    }
    Multiply(weights, at, at + mark->text.size(), mark->weight);
    rest = mark->rest;
    at += mark->text.size();
  }
}

std::vector<float> LossParts::Weights(std::string_view answer) const {
  std::vector<float> weights(answer.size(), 1);
  WeighSpans(answer, weights);
  WeighMarks(answer, weights);
  if (skip_empty_think_) Multiply(weights, 0, EmptyThink(answer), 0);
  return weights;
}

}  // namespace trireme
