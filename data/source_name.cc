#include "data/source_name.h"

#include <glob.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/config.pb.h"
#include "data/dataset_info.h"
#include "data/hub/hub_set.h"
#include "data/hub/hub_set_name.h"
#include "data/prepare.h"
#include "data/records.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) || IndexedPrefix(path).has_value();
}

// The paths that a shell would expand it to, sorted; none if it is not a pattern or matches nothing.
std::vector<fs::path> Matches(const std::string& pattern) {
  if (pattern.find_first_of("*?[") == std::string::npos) return {};
  glob_t found{};
  std::vector<fs::path> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

bool IsThere(const fs::path& path) { return Exists(path) || !Matches(path.string()).empty(); }

bool HoldsData(const fs::path& path) {
  return HoldsRecords(path) || (path.extension() == ".idx" && IndexedPrefix(path));
}

template <typename T>
T ParseNumber(const std::string& digits, const std::string& key, const std::string& text, const char* wanted) {
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || !(value > 0) || !std::isfinite(static_cast<double>(value))) {
    throw InputError(key, ": ", text, " ends in '", digits, "'; wanted ", wanted);
  }
  return value;
}

// What follows a # or an @.
void ReadMark(const std::string& text, size_t mark, const std::string& key, SourceName& name) {
  const std::string digits = text.substr(mark + 1);
  if (text[mark] == '#') name.count = ParseNumber<int64_t>(digits, key, text, "a number of samples, such as #500");
  if (text[mark] == '@') name.weight = ParseNumber<double>(digits, key, text, "a weight, such as @0.3");
}

}  // namespace

SourceName ParseSourceName(const std::string& text, const std::string& key) {
  SourceName name{.path = text, .count = {}, .weight = {}};
  if (text.empty()) throw InputError(key, " has an empty entry; set it to the path of a file or a directory");
  if (!IsThere(text)) {
    const size_t mark = text.find_last_of("#@");
    if (mark != std::string::npos && IsThere(text.substr(0, mark))) {
      name.path = text.substr(0, mark);
      ReadMark(text, mark, key, name);
    }
  }
  if (IsThere(name.path)) return name;
  if (text.find("**") != std::string::npos) {
    throw InputError(key, ": ", text, ": ** is not supported; name the directory to use all files below it");
  }
  const bool pattern = text.find_first_of("*?[") != std::string::npos;
  throw InputError(key, ": ", text,
                   pattern ? " matches no file; check the pattern" : " does not exist; check the path");
}

namespace {

// A file that is missing is no data set of a hub, unless the name says so.
bool IsHubName(const std::string& text) {
  const auto name = ParseHubSetName(text);
  return name && (name->hub != SetHub::kDefault || !name->parts.empty() || !HoldsRecords(text));
}

// As launch/ has found it.
std::vector<fs::path> FilesOfHub(const std::string& title, const std::string& key, const Config& config) {
  std::optional<HubSet> set = FindHubSet(DataCacheOf(config.data()), title);
  if (set) return std::move(set->files);
  throw InputError(key, ": ", title, " is not here; trireme train RUN.yaml --dry-run downloads it");
}

// A mark, if there is one.
void ReadHubMark(const std::string& text, const std::string& key, SourceName& name) {
  const size_t mark = text.find_last_of("#@");
  if (mark == std::string::npos) return;
  try {
    ReadMark(text, mark, key, name);
  } catch (const Error& error) {
    throw InputError(error.what(), "; a revision is written ?revision=NAME");
  }
}

SourceName OfFileOrHub(const std::string& text, const std::string& key, const Config& config) {
  const std::optional<std::string> title = HubTitle(text, key, config);
  if (!title) return ParseSourceName(text, key);
  SourceName name{.path = *title, .count = {}, .weight = {}};
  name.files = FilesOfHub(*title, key, config);
  ReadHubMark(text, key, name);
  return name;
}

// Its name may have a mark after it.
std::optional<std::string> DescribedName(const std::string& entry, const DatasetInfo& info) {
  const std::string title = entry.substr(0, entry.find_last_of("#@"));
  if (info.Names(entry)) return entry;
  return info.Names(title) ? std::optional(title) : std::nullopt;
}

}  // namespace

std::optional<std::string> HubTitle(const std::string& entry, const std::string& key, const Config& config) {
  if (!config.data().dataset_info().empty()) {
    const DatasetInfo info(config.data().dataset_info());
    if (const auto name = DescribedName(entry, info)) {
      const std::string title = info.HubTitleOf(*name);
      return title.empty() ? std::nullopt : std::optional(title);
    }
  }
  const std::string title = entry.substr(0, entry.find_last_of("#@"));
  if (IsThere(entry) || IsThere(title) || !IsHubName(title)) return std::nullopt;
  SourceName marked;
  ReadHubMark(entry, key, marked);
  // The same name is another data set on the other hub.
  const bool modelscope = ParseHubSetName(title)->hub == SetHub::kDefault && IsSwitchedOn("USE_MODELSCOPE_HUB");
  return modelscope ? "ms::" + title : title;
}

SourceName ParseSourceName(const std::string& text, const std::string& key, const Config& config) {
  if (config.data().dataset_info().empty()) return OfFileOrHub(text, key, config);
  const DatasetInfo info(config.data().dataset_info());
  const std::optional<std::string> title = DescribedName(text, info);
  if (!title) {
    try {
      return OfFileOrHub(text, key, config);
    } catch (const Error& error) {
      throw InputError(error.what(), "; it ", info.NamesLike(text.substr(0, text.find_last_of("#@"))), ", either");
    }
  }
  DescribedSet set = info.Find(*title, FactsOf(config));
  SourceName name{.path = set.path, .count = set.count, .weight = {}, .form = set.form};
  if (!set.hub_title.empty()) {
    name.path = set.hub_title;
    name.files = FilesOfHub(set.hub_title, key, config);
  }
  if (text != *title) ReadMark(text, title->size(), key, name);
  return name;
}

std::optional<fs::path> IndexedPrefix(const fs::path& path) {
  std::error_code ignored;
  fs::path prefix = path;
  if (path.extension() == ".bin" || path.extension() == ".idx") prefix.replace_extension();
  const bool both = fs::exists(prefix.string() + ".idx", ignored) && fs::exists(prefix.string() + ".bin", ignored);
  return both ? std::optional(prefix) : std::nullopt;
}

namespace {

// All files with records or indexed data below a directory.
std::vector<fs::path> DataBelow(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unreadable;  // a broken link is not data
    if (entry->is_regular_file(unreadable) && HoldsData(entry->path())) files.push_back(entry->path());
  }
  if (error) throw InputError(directory.string(), ": cannot be read: ", error.message());
  std::sort(files.begin(), files.end());
  return files;
}

// A match that holds no data (a README, an empty directory) is skipped; at least one must hold some.
std::vector<fs::path> FilesOfPattern(const fs::path& pattern, const std::string& key) {
  std::vector<fs::path> files;
  for (const fs::path& path : Matches(pattern.string())) {
    if (IsDirectory(path)) {
      for (const fs::path& file : DataBelow(path)) files.push_back(file);
    } else if (HoldsData(path)) {
      files.push_back(path);
    }
  }
  if (!files.empty()) return files;
  throw InputError(key, ": ", pattern.string(), " matches no data; wanted files ending in ", RecordEndings(),
                   " or .idx");
}

}  // namespace

std::vector<fs::path> FilesOf(const fs::path& path, const std::string& key) {
  if (!Exists(path) && !Matches(path.string()).empty()) return FilesOfPattern(path, key);
  if (!IsDirectory(path)) return {path};
  std::vector<fs::path> files = DataBelow(path);
  if (!files.empty()) return files;
  throw InputError(key, ": ", path.string(), " is a directory without data; wanted files in it ending in ",
                   RecordEndings(), " or .idx");
}

std::vector<DataFile> FilesOf(const SourceName& name, const std::string& key) {
  std::vector<DataFile> files;
  for (const fs::path& path : name.files.empty() ? FilesOf(name.path, key) : name.files)
    files.emplace_back(path, name.form);
  return files;
}

}  // namespace trireme
