// Whether two answers say the same: the answer is found in a text, then compared as text, or as a number. A simple
// maths checker: fractions, decimals, percent signs, thousands separators; no algebra.
#pragma once

#include <optional>
#include <string>

namespace trireme {

// What stands in the last <answer>…</answer>, otherwise in the last \boxed{…}, otherwise the whole text.
std::string AnswerIn(const std::string& text);
// A number such as 1,234.5, -3/4, \frac{1}{2} or 50 %.
std::optional<double> NumberIn(const std::string& answer);
// The same number, or the same words but for case, blanks and punctuation at the ends. Where only `wanted` is a number,
// the last number of `found` counts.
bool IsSameAnswer(const std::string& found, const std::string& wanted);

}  // namespace trireme
