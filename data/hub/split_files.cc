#include "data/hub/split_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/hub/file_glob.h"

namespace trireme {
namespace {

constexpr std::string_view kShards = "-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]*.*";

struct Keywords {
  const char* split;
  std::vector<const char*> words;
};
const std::array<Keywords, 3>& AllKeywords() {
  static const std::array<Keywords, 3> all = {{{"train", {"train", "training"}},
                                               {"validation", {"validation", "valid", "dev", "val"}},
                                               {"test", {"test", "testing", "eval", "evaluation"}}}};
  return all;
}

// Of a keyword between others than letters; # stands for it.
constexpr const char* kInFolders[] = {"**/#/**", "**/#[-._ 0-9]*/**", "**/*[-._ 0-9]#/**",
                                      "**/*[-._ 0-9]#[-._ 0-9]*/**"};
constexpr const char* kInFiles[] = {"**/#[-._ 0-9]*", "**/*[-._ 0-9]#[-._ 0-9]*"};

template <size_t N>
std::vector<SplitPatterns> ByKeywords(const char* const (&shapes)[N]) {
  std::vector<SplitPatterns> splits;
  for (const Keywords& keywords : AllKeywords()) {
    SplitPatterns split{keywords.split, {}};
    for (const char* word : keywords.words) {
      for (const std::string shape : shapes) {
        const size_t mark = shape.find('#');
        split.patterns.push_back(Concat(shape.substr(0, mark), word, shape.substr(mark + 1)));
      }
    }
    splits.push_back(std::move(split));
  }
  return splits;
}

// Words with dots between them.
bool IsSplitName(std::string_view name) {
  const bool letters = std::ranges::all_of(
      name, [](unsigned char letter) { return std::isalnum(letter) != 0 || letter == '_' || letter == '.'; });
  return letters && !name.empty() && name[0] != '.' && name.back() != '.' && name.find("..") == std::string_view::npos;
}

// data/SPLIT-00000-of-00001.parquet, as `datasets` writes them.
std::vector<SplitPatterns> Sharded(const std::vector<std::string>& files) {
  std::set<std::string> names;
  for (const std::string& file : MatchingFiles(Concat("data/*", kShards), files)) {
    const std::string name = file.substr(file.rfind('/') + 1);
    names.insert(name.substr(0, name.rfind("-of-") - 6));
    if (IsSplitName(*names.find(name.substr(0, name.rfind("-of-") - 6)))) continue;
    throw InputError(file, ": a split cannot have this name; wanted letters, digits, _ and dots before -00000-of-");
  }
  std::vector<SplitPatterns> splits;
  for (const std::string& name : names) splits.push_back({name, {Concat("data/", name, kShards)}});
  return splits;
}

std::vector<SplitPatterns> ThatMatch(std::vector<SplitPatterns> splits, const std::vector<std::string>& files) {
  std::erase_if(splits, [&](const SplitPatterns& split) {
    return std::ranges::all_of(split.patterns,
                               [&](const std::string& pattern) { return MatchingFiles(pattern, files).empty(); });
  });
  return splits;
}

// NAME-00000-of-00003.parquet; nothing for other names.
struct Shard {
  std::string series;  // what all of them have
  int64_t count = 0;
};
std::optional<Shard> ShardOf(const std::string& file) {
  constexpr size_t kDigits = 5;
  const size_t of = file.rfind("-of-");
  if (of == std::string::npos || of < kDigits + 1 || of + 4 + kDigits > file.size()) return std::nullopt;
  const std::string index = file.substr(of - kDigits, kDigits), count = file.substr(of + 4, kDigits);
  if ((index + count).find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return Shard{file.substr(0, of - kDigits) + file.substr(of), std::stoll(count)};
}

}  // namespace

std::string MissingShard(const std::vector<std::string>& files) {
  std::map<std::string, int64_t> found;
  for (const std::string& file : files) {
    if (const auto shard = ShardOf(file)) ++found[shard->series];
  }
  for (const std::string& file : files) {
    const auto shard = ShardOf(file);
    if (shard && found[shard->series] < shard->count)
      return Concat(found[shard->series], " of the ", shard->count, " files of ", file);
  }
  return "";
}

std::vector<SplitPatterns> DefaultSplits(const std::vector<std::string>& files) {
  std::vector<SplitPatterns> splits = Sharded(files);
  // The first two are formats of evaluations, which are not read here: they are known so that nothing else of such a
  // repository is taken for data.
  const std::vector<std::vector<SplitPatterns>> groups = {{{"logs", {"**/*.eval"}}},
                                                          {{"test", {"**/task.toml", "**/instruction.md"}}},
                                                          ByKeywords(kInFolders),
                                                          ByKeywords(kInFiles),
                                                          {{"train", {"**"}}}};
  for (size_t group = 0; splits.empty() && group < groups.size(); ++group) splits = ThatMatch(groups[group], files);
  return splits;
}

}  // namespace trireme
