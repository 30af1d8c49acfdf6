#include "data/hub/file_glob.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/base/error.h"

namespace trireme {
namespace {

using Parts = std::vector<std::string_view>;

// Files that describe a repository; a pattern may still name one.
constexpr std::array kDescriptions = {"README.md",          "config.json",    "dataset_info.json",
                                      "dataset_infos.json", "dummy_data.zip", "dataset_dict.json"};

Parts PartsOf(std::string_view path) {
  Parts parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

// Of [abc], [a-z] and [!abc]; `end` becomes the position after it. Without a ] it is a letter like any other.
bool SetMatches(std::string_view pattern, size_t begin, char letter, size_t& end) {
  const bool negated = begin + 1 < pattern.size() && pattern[begin + 1] == '!';
  size_t at = begin + (negated ? 2 : 1);
  const size_t close = pattern.find(']', at + 1);
  if (close == std::string_view::npos) {
    end = begin + 1;
    return letter == '[';
  }
  bool found = false;
  for (; at < close; ++at) {
    const bool range = at + 2 < close && pattern[at + 1] == '-';
    found |= range ? pattern[at] <= letter && letter <= pattern[at + 2] : pattern[at] == letter;
    if (range) at += 2;
  }
  end = close + 1;
  return found != negated;
}

// One letter of a name against what stands at `at`, which then moves behind it.
bool LetterMatches(std::string_view pattern, size_t& at, char letter) {
  if (at == pattern.size()) return false;
  if (pattern[at] == '[') return SetMatches(pattern, at, letter, at);
  const bool matches = pattern[at] == '?' || pattern[at] == letter;
  ++at;
  return matches;
}

// A later * takes over from an earlier one, so that the time is bounded by the product of the lengths.
bool NameMatches(std::string_view pattern, std::string_view name) {
  size_t at = 0, after_star = std::string_view::npos, resume = 0;
  for (size_t letter = 0; letter < name.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      after_star = ++at;
      resume = letter;
    } else if (LetterMatches(pattern, at, name[letter])) {
      ++letter;
    } else {
      if (after_star == std::string_view::npos) return false;
      at = after_star;
      letter = ++resume;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

// As NameMatches, of folders: ** is any number of them, and at the end at least the file.
bool PathMatches(Parts pattern, const Parts& path) {
  if (!pattern.empty() && pattern.back() == "**") pattern.push_back("*");
  size_t at = 0, after_star = std::string_view::npos, resume = 0;
  for (size_t part = 0; part < path.size();) {
    if (at < pattern.size() && pattern[at] == "**") {
      after_star = ++at;
      resume = part;
    } else if (at < pattern.size() && NameMatches(pattern[at], path[part])) {
      ++at;
      ++part;
    } else {
      if (after_star == std::string_view::npos) return false;
      at = after_star;
      part = ++resume;
    }
  }
  return at == pattern.size();
}

std::ptrdiff_t HiddenIn(const Parts& parts) {
  return std::ranges::count_if(parts, [](std::string_view part) {
    return part.starts_with(".") && part.find_first_not_of('.') != std::string_view::npos;
  });
}

std::ptrdiff_t SpecialFoldersIn(const Parts& parts) {
  if (parts.empty()) return 0;
  return std::count_if(parts.begin(), parts.end() - 1, [](std::string_view part) { return part.starts_with("__"); });
}

}  // namespace

bool IsGlob(std::string_view pattern) { return pattern.find_first_of("*?[") != std::string_view::npos; }

std::vector<std::string> MatchingFiles(const std::string& pattern, const std::vector<std::string>& files) {
  const Parts wanted = PartsOf(pattern);
  for (const std::string_view part : wanted) {
    if (part.find("**") == std::string_view::npos || part == "**") continue;
    throw InputError("the pattern '", pattern, "' has ** beside other letters; wanted it between slashes");
  }
  std::vector<std::string> found;
  for (const std::string& file : files) {
    const Parts path = PartsOf(file);
    const bool described = !path.empty() && !wanted.empty() && path.back() != wanted.back() &&
                           std::ranges::find(kDescriptions, path.back()) != kDescriptions.end();
    const bool asked = HiddenIn(path) == HiddenIn(wanted) && SpecialFoldersIn(path) == SpecialFoldersIn(wanted);
    if (asked && !described && PathMatches(wanted, path)) found.push_back(file);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace trireme
