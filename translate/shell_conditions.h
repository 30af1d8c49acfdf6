// Whether a condition of a shell script holds: what stands in [ … ] and [[ … ]], patterns of `case`. Only texts and
// numbers are compared: no file is looked at and nothing is run, so that of many conditions nothing can be said.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

using Truth = std::optional<bool>;  // nothing: only a shell could tell

Truth Both(Truth left, Truth right);
Truth Either(Truth left, Truth right);
Truth Not(Truth one);

// The words between the brackets, with &&, ||, -a and -o among them.
Truth TestHolds(const std::vector<std::string>& words);

// One of the patterns of a case, a|b*.
Truth MatchesOne(const std::string& text, const std::vector<std::string>& patterns);

}  // namespace trireme
