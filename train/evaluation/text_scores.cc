#include "train/evaluation/text_scores.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "train/evaluation/text_words.h"

namespace trireme {
namespace {

using Words = std::vector<std::u32string>;

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

// In percent. The small number is rouge_chinese's, which keeps it from dividing by zero.
double F1(size_t common, size_t predicted, size_t expected) {
  const double precision = predicted == 0 ? 0 : static_cast<double>(common) / static_cast<double>(predicted);
  const double recall = expected == 0 ? 0 : static_cast<double>(common) / static_cast<double>(expected);
  return 100 * 2 * precision * recall / (precision + recall + 1e-8);
}

// Each n-gram counts once, however often a text has it.
std::set<Words> DifferentGrams(const Words& words, size_t n) {
  std::set<Words> grams;
  for (size_t i = 0; i + n <= words.size(); ++i) {
    grams.insert({words.begin() + static_cast<int64_t>(i), words.begin() + static_cast<int64_t>(i + n)});
  }
  return grams;
}

double RougeN(const Words& prediction, const Words& label, size_t n) {
  const std::set<Words> predicted = DifferentGrams(prediction, n), expected = DifferentGrams(label, n);
  const auto common = std::ranges::count_if(predicted, [&](const Words& gram) { return expected.contains(gram); });
  return F1(static_cast<size_t>(common), predicted.size(), expected.size());
}

size_t LongestCommonSubsequence(const Words& a, const Words& b) {
  std::vector<size_t> lengths(b.size() + 1, 0);  // of a's words so far with each beginning of b
  for (const std::u32string& word : a) {
    size_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = lengths[j + 1];
      lengths[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, lengths[j]);
      diagonal = above;
    }
  }
  return lengths.back();
}

std::map<std::u32string, int64_t> CountGrams(const std::u32string& text, size_t n) {
  std::map<std::u32string, int64_t> counts;
  for (size_t i = 0; i + n <= text.size(); ++i) ++counts[text.substr(i, n)];
  return counts;
}

// In percent. A precision of zero becomes 1 / (2^k · n-grams), k counting those that were.
double Bleu4(const std::u32string& prediction, const std::u32string& label) {
  double log_sum = 0, smoothing = 1;
  for (size_t n = 1; n <= 4; ++n) {
    const std::map<std::u32string, int64_t> expected = CountGrams(label, n);
    int64_t matches = 0, grams = 0;
    for (const auto& [gram, count] : CountGrams(prediction, n)) {
      const auto found = expected.find(gram);
      grams += count;
      if (found != expected.end()) matches += std::min(count, found->second);
    }
    if (n == 1 && matches == 0) return 0;
    const double total = static_cast<double>(std::max<int64_t>(grams, 1));
    if (matches == 0) smoothing *= 2;
    log_sum += std::log(matches == 0 ? 1 / (smoothing * total) : static_cast<double>(matches) / total);
  }
  const double ratio = static_cast<double>(label.size()) / static_cast<double>(prediction.size());
  const double brevity = ratio < 1 ? 1 : std::exp(1 - ratio);
  return 100 * brevity * std::exp(log_sum / 4);
}

}  // namespace

TextScores ScoreText(const std::string& prediction, const std::string& label) {
  const std::u32string predicted = CodePointsOf(prediction), expected = CodePointsOf(label);
  TextScores scores{.exact_match = Trimmed(prediction) == Trimmed(label) ? 1.0 : 0.0,
                    .bleu_4 = Bleu4(predicted, expected)};
  const Words predicted_words = WordsOf(predicted), expected_words = WordsOf(expected);
  if (predicted_words.empty() || expected_words.empty()) return scores;
  scores.rouge_1 = RougeN(predicted_words, expected_words, 1);
  scores.rouge_2 = RougeN(predicted_words, expected_words, 2);
  scores.rouge_l =
      F1(LongestCommonSubsequence(predicted_words, expected_words), predicted_words.size(), expected_words.size());
  return scores;
}

}  // namespace trireme
