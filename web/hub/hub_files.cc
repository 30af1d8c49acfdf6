#include "web/hub/hub_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <string_view>

namespace trireme {
namespace {

constexpr std::array kNeeded = {
    "*.safetensors",           "*.safetensors.index.json", "config*.json", "*config.json", "tokenizer*",
    "special_tokens_map.json", "added_tokens.json",        "vocab.json",   "vocab.txt",    "merges.txt",
    "chat_template.*"};
constexpr char kConsolidated[] = "consolidated*";  // the same weights once more, under other names

bool Matches(const std::string& file, const char* glob) { return fnmatch(glob, file.c_str(), FNM_PERIOD) == 0; }

// Of those in folders none: they hold the same in other formats.
bool IsNeeded(const std::string& file) {
  if (file.empty() || file.find('/') != std::string::npos || file.size() > 200 || Matches(file, kConsolidated))
    return false;
  const bool plain = std::ranges::none_of(file, [](unsigned char c) { return c < ' ' || c == 0x7f; });
  return plain && std::ranges::any_of(kNeeded, [&](const char* glob) { return Matches(file, glob); });
}

}  // namespace

bool MakesAModel(const std::string& file) { return file == "config.json" || file == "adapter_config.json"; }

std::vector<std::string> NeededFiles(const std::vector<std::string>& all) {
  std::vector<std::string> needed;
  std::ranges::copy_if(all, std::back_inserter(needed), IsNeeded);
  std::ranges::sort(needed);
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  std::ranges::stable_partition(needed, [](const std::string& file) { return !MakesAModel(file); });
  return needed;
}

bool IsSafeName(const std::string& file) {
  for (size_t begin = 0; begin <= file.size();) {
    const size_t end = std::min(file.find('/', begin), file.size());
    const std::string_view part = std::string_view(file).substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > 200) return false;
    begin = end + 1;
  }
  return file.size() <= 1000 && std::ranges::none_of(file, [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

namespace {

std::string Encoded(const std::string& file, std::string_view plain) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (const char letter : file) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0 || (byte != 0 && plain.find(letter) != std::string_view::npos)) {
      text += letter;
    } else {
      text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return text;
}

}  // namespace

std::string PercentEncoded(const std::string& text) { return Encoded(text, "-_.~"); }

std::string PercentEncodedPath(const std::string& path) { return Encoded(path, "-_.~/"); }

}  // namespace trireme
