// Whole numbers as a shell computes them: + - * / % and parentheses over numbers and variables.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trireme {

// `value_of` gives a variable's text. Nothing if the text is another expression, or a variable is no number.
std::optional<int64_t> Evaluate(const std::string& text,
                                const std::function<std::string(const std::string&)>& value_of);

}  // namespace trireme
