#include "train/data/source_name.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.h"
#include "train/data/records.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool IsThere(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) || IndexedPrefix(path).has_value();
}

template <typename T>
T ParseNumber(const std::string& digits, const std::string& key, const std::string& text,
              const char* wanted) {
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || !(value > 0) || !std::isfinite(static_cast<double>(value))) {
    throw InputError(key, ": ", text, " ends in '", digits, "'; wanted ", wanted);
  }
  return value;
}

}  // namespace

SourceName ParseSourceName(const std::string& text, const std::string& key) {
  SourceName name{.path = text, .count = {}, .weight = {}};
  if (text.empty()) throw InputError(key, " has an empty entry; write the path of a file or a directory");
  if (!IsThere(text)) {
    const size_t mark = text.find_last_of("#@");
    if (mark != std::string::npos && IsThere(text.substr(0, mark))) {
      name.path = text.substr(0, mark);
      const std::string digits = text.substr(mark + 1);
      if (text[mark] == '#')
        name.count = ParseNumber<int64_t>(digits, key, text, "a number of samples, such as #500");
      if (text[mark] == '@') name.weight = ParseNumber<double>(digits, key, text, "a weight, such as @0.3");
    }
  }
  if (IsThere(name.path)) return name;
  throw InputError(key, ": ", text, " is not there; write the path of a file that is");
}

std::optional<fs::path> IndexedPrefix(const fs::path& path) {
  std::error_code ignored;
  fs::path prefix = path;
  if (path.extension() == ".bin" || path.extension() == ".idx") prefix.replace_extension();
  const bool both =
      fs::exists(prefix.string() + ".idx", ignored) && fs::exists(prefix.string() + ".bin", ignored);
  return both ? std::optional(prefix) : std::nullopt;
}

std::vector<fs::path> FilesOf(const fs::path& path, const std::string& key) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    const bool indexed = entry.path().extension() == ".idx" && IndexedPrefix(entry.path());
    if (entry.is_regular_file() && (indexed || HoldsRecords(entry.path()))) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    throw InputError(
        key, ": ", path.string(),
        " is a directory without data; wanted .jsonl, .json, .csv, .tsv, .txt or .idx files in it");
  }
  return files;
}

}  // namespace trireme
