#include "train/rollouts/answer_check.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

namespace trireme {
namespace {

std::string Trimmed(std::string_view text) {
  constexpr std::string_view kOuter = " \t\r\n.,;:!?$\"'";
  const size_t begin = text.find_first_not_of(kOuter);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kOuter) - begin + 1));
}

// One blank between words, in lower case.
std::string Words(const std::string& text) {
  std::string words;
  for (const char letter : Trimmed(text)) {
    const bool blank = std::isspace(static_cast<unsigned char>(letter)) != 0;
    if (blank && (words.empty() || words.back() == ' ')) continue;
    words += blank ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return words;
}

// From after an opening brace to the one that closes it; npos if there is none.
size_t ClosingBrace(const std::string& text, size_t begin) {
  int depth = 1;
  for (size_t i = begin; i < text.size(); ++i) {
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth == 0) return i;
  }
  return std::string::npos;
}

std::optional<double> PlainNumber(std::string_view text) {
  std::string digits;
  for (const char letter : text) {
    if (letter != ',' && letter != ' ' && letter != '_') digits += letter;
  }
  if (digits.starts_with('+')) digits.erase(0, 1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> Quotient(std::string_view above, std::string_view below) {
  const std::optional<double> first = PlainNumber(above), second = PlainNumber(below);
  if (!first || !second || *second == 0) return std::nullopt;
  return *first / *second;
}

std::optional<double> LatexFraction(const std::string& text) {
  constexpr std::string_view kFraction = "\\frac{";
  const bool negative = text.starts_with('-');
  const std::string rest = text.substr(negative ? 1 : 0);
  if (!rest.starts_with(kFraction)) return std::nullopt;
  const size_t middle = ClosingBrace(rest, kFraction.size());
  if (middle == std::string::npos || middle + 1 >= rest.size() || rest[middle + 1] != '{') return std::nullopt;
  const size_t end = ClosingBrace(rest, middle + 2);
  if (end != rest.size() - 1) return std::nullopt;
  const std::optional<double> value =
      Quotient(rest.substr(kFraction.size(), middle - kFraction.size()), rest.substr(middle + 2, end - middle - 2));
  return value && negative ? std::optional(-*value) : value;
}

// The last run of letters of a number in a text.
std::string LastNumber(const std::string& text) {
  constexpr std::string_view kDigits = "0123456789";
  const size_t end = text.find_last_of(kDigits);
  if (end == std::string::npos) return "";
  size_t begin = end;
  while (begin > 0 && std::string_view("0123456789.,/").find(text[begin - 1]) != std::string_view::npos) --begin;
  if (begin > 0 && text[begin - 1] == '-') --begin;
  return Trimmed(text.substr(begin, end - begin + 1));
}

}  // namespace

std::string AnswerIn(const std::string& text) {
  constexpr std::string_view kOpen = "<answer>", kClose = "</answer>", kBoxed = "\\boxed{";
  const size_t close = text.rfind(kClose);
  const size_t open = close == std::string::npos ? close : text.rfind(kOpen, close);
  if (open != std::string::npos) return AnswerIn(text.substr(open + kOpen.size(), close - open - kOpen.size()));
  const size_t boxed = text.rfind(kBoxed);
  const size_t end = boxed == std::string::npos ? boxed : ClosingBrace(text, boxed + kBoxed.size());
  if (end != std::string::npos) return text.substr(boxed + kBoxed.size(), end - boxed - kBoxed.size());
  return text;
}

std::optional<double> NumberIn(const std::string& answer) {
  std::string text = Trimmed(answer);
  const bool percent = text.ends_with('%');
  if (percent) text = Trimmed(text.substr(0, text.size() - (text.ends_with("\\%") ? 2 : 1)));
  std::optional<double> value = PlainNumber(text);
  if (!value) value = LatexFraction(text);
  if (const size_t slash = text.find('/'); !value && slash != std::string::npos) {
    value = Quotient(std::string_view(text).substr(0, slash), std::string_view(text).substr(slash + 1));
  }
  return value && percent ? std::optional(*value / 100) : value;
}

bool IsSameAnswer(const std::string& found, const std::string& wanted) {
  if (Words(found) == Words(wanted)) return true;
  const std::optional<double> number = NumberIn(wanted);
  if (!number) return false;
  std::optional<double> other = NumberIn(found);
  if (!other) other = NumberIn(LastNumber(found));
  return other && std::abs(*other - *number) <= 1e-9 * std::max(1.0, std::abs(*number));
}

}  // namespace trireme
