// The known word that a mistyped one resembles most, for error messages. Not a search engine: lists are
// short.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

// Letters to insert, delete, replace, or swap with a neighbour to turn one word into the other.
int EditDistance(const std::string& a, const std::string& b);

// The first of the closest words, or nothing if all differ in more than a third of the word.
std::optional<std::string> Nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace trireme
