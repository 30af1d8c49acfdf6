// Built-in rewards of a completion's text and length, by ms-swift's formulas.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <numbers>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "data/record_fields.h"
#include "train/rollouts/answer_check.h"
#include "train/rollouts/rewards.h"

namespace trireme {
namespace {

constexpr int kWordsPerGram = 3;

std::vector<std::string> LowerWords(const std::string& text) {
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  std::istringstream in(lower);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

double TokensOf(const Judged& one) { return static_cast<double>(one.rollout->completion_ids.size()); }

}  // namespace

// 1 if the answer is that of the column solution.
double AccuracyReward(const Judged& one, const Config& /*config*/) {
  const std::string wanted = AnswerIn(TextAt(one.prompt->record, "solution"));
  return IsSameAnswer(AnswerIn(one.rollout->completion), wanted) ? 1 : 0;
}

// 1 if the whole text is <think>…</think>, blanks, <answer>…</answer>.
double FormatReward(const Judged& one, const Config& /*config*/) {
  constexpr std::string_view kThink = "<think>", kThought = "</think>", kAnswer = "<answer>", kAnswered = "</answer>";
  const std::string_view text = one.rollout->completion;
  if (!text.starts_with(kThink) || !text.ends_with(kAnswered)) return 0;
  for (size_t thought = text.find(kThought); thought != std::string_view::npos;
       thought = text.find(kThought, thought + 1)) {
    const std::string_view rest = text.substr(thought + kThought.size());
    const size_t begin = rest.find_first_not_of(" \t\r\n");
    if (begin != std::string_view::npos && rest.substr(begin).starts_with(kAnswer)) return 1;
  }
  return 0;
}

// Half a cosine wave over the length: right answers from 1.0 down to 0.5, wrong ones from -0.5 up to 0.
double CosineReward(const Judged& one, const Config& config) {
  const bool right = AccuracyReward(one, config) == 1;
  const double least = right ? 0.5 : 0.0, most = right ? 1.0 : -0.5;  // at full length, and at none
  const double share = TokensOf(one) / config.rl().max_new_tokens();
  return most - (most - least) * (1 - std::cos(std::numbers::pi * share)) / 2;
}

// Minus the share of word triples that occurred before.
double RepetitionReward(const Judged& one, const Config& /*config*/) {
  const std::vector<std::string> words = LowerWords(one.rollout->completion);
  if (std::ssize(words) < kWordsPerGram) return 0;
  std::set<std::vector<std::string>> distinct;
  const auto total = words.size() - kWordsPerGram + 1;
  for (size_t i = 0; i < total; ++i) {
    distinct.insert({words.begin() + static_cast<int64_t>(i), words.begin() + static_cast<int64_t>(i) + kWordsPerGram});
  }
  return static_cast<double>(distinct.size()) / static_cast<double>(total) - 1;
}

double OverlongPenalty(const Judged& one, double longest, double last) {
  return std::min(0.0, -(TokensOf(one) - (longest - last)) / last);
}

double SoftOverlongReward(const Judged& one, const Config& config) {
  return OverlongPenalty(one, config.rl().max_new_tokens(), config.rl().max_new_tokens() / 5.0);
}

// Minus the share of the longest completion that it takes.
double LengthReward(const Judged& one, const Config& config) { return -TokensOf(one) / config.rl().max_new_tokens(); }

}  // namespace trireme
