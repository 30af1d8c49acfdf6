#include "data/hub/repository_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/hub/file_glob.h"
#include "data/hub/split_files.h"

namespace trireme {
namespace {

// Extensions of one kind are read together; those of none are not data. On equal numbers of files the first wins.
struct Extension {
  const char* name;
  const char* kind;
};
constexpr Extension kExtensions[] = {
    {"parquet", "parquet"}, {"arrow", "arrow"},    {"jsonl", "json"},     {"json", "json"},      {"csv", "csv"},
    {"tsv", "csv"},         {"ndjson", "json"},    {"txt", "text"},       {"geoparquet", "geo"}, {"gpq", "geo"},
    {"lance", "lance"},     {"zip", "archives"},   {"tar", "archives"},   {"xml", "xml"},        {"h5", "hdf5"},
    {"hdf5", "hdf5"},       {"conll", "conll"},    {"conllu", "conll"},   {"eval", "logs"},      {"png", "images"},
    {"jpg", "images"},      {"jpeg", "images"},    {"gif", "images"},     {"bmp", "images"},     {"webp", "images"},
    {"tif", "images"},      {"tiff", "images"},    {"wav", "recordings"}, {"mp3", "recordings"}, {"flac", "recordings"},
    {"ogg", "recordings"},  {"m4a", "recordings"}, {"mp4", "videos"},     {"avi", "videos"},     {"mov", "videos"},
    {"mkv", "videos"},      {"webm", "videos"},    {"pdf", "documents"}};

const Extension* ExtensionNamed(std::string_view name) {
  const auto* found =
      std::ranges::find_if(kExtensions, [&](const Extension& extension) { return name == extension.name; });
  return found == std::end(kExtensions) ? nullptr : found;
}

// train.jsonl.gz has two.
std::vector<const Extension*> ExtensionsOf(const std::string& file) {
  std::vector<const Extension*> found;
  std::string_view name = std::string_view(file).substr(file.rfind('/') + 1);
  for (size_t dot; (dot = name.find('.')) != std::string_view::npos;) {
    name.remove_prefix(dot + 1);
    const Extension* extension = ExtensionNamed(name.substr(0, name.find('.')));
    if (extension != nullptr) found.push_back(extension);
  }
  return found;
}

bool IsOfKind(const std::string& file, std::string_view kind) {
  return std::ranges::any_of(ExtensionsOf(file), [&](const Extension* extension) { return extension->kind == kind; });
}

// The kind of the most frequent extension; empty for no data at all. What describes images is not counted as records.
std::string KindOf(const std::vector<std::string>& files) {
  std::map<const Extension*, int64_t> counts;
  for (const std::string& file : files) {
    const bool describes = std::string_view(file).substr(file.rfind('/') + 1).starts_with("metadata.");
    for (const Extension* extension : ExtensionsOf(file)) counts[extension] += describes ? 1 : 1'000'000;
  }
  const Extension* best = nullptr;
  for (const auto& [extension, count] : counts) {
    if (best == nullptr || count > counts[best]) best = extension;
  }
  return best == nullptr ? "" : best->kind;
}

class Selection {
 public:
  explicit Selection(const Repository& repository) : repository_(repository) {
    if (repository.card.empty()) subsets_.push_back({.name = "default"});
    for (const CardSubset& subset : repository.card) subsets_.push_back(subset);
  }

  std::vector<std::string> Files(const HubSetName& name) const {
    std::string split;
    std::vector<std::string> files;
    for (const CardSubset* subset : SubsetsOf(name, split)) {
      for (std::string& file : FilesOf(*subset, split)) files.push_back(std::move(file));
    }
    return files;
  }

 private:
  const CardSubset* Named(const std::string& name) const {
    const auto found = std::ranges::find_if(subsets_, [&](const CardSubset& one) { return one.name == name; });
    return found == subsets_.end() ? nullptr : &*found;
  }

  std::string Names() const {
    return Join(subsets_, ", ", [](const CardSubset& subset) { return subset.name; });
  }

  // A part that is no subset is a split, at the end; without one it is train.
  std::vector<const CardSubset*> SubsetsOf(const HubSetName& name, std::string& split) const {
    std::vector<const CardSubset*> chosen;
    for (const std::string& part : name.parts) {
      const CardSubset* subset = Named(part);
      if (subset != nullptr && split.empty()) {
        chosen.push_back(subset);
      } else if (part == "all" && name.parts.size() == 1 && subsets_.size() > 1) {
        for (const CardSubset& one : subsets_) chosen.push_back(&one);
      } else if (subset == nullptr && &part == &name.parts.back()) {
        split = part;
      } else {
        throw InputError(repository_.who, " has no subset '", part, "'; it has ", Names());
      }
    }
    if (chosen.empty()) chosen.push_back(&Default(split));
    if (split.empty()) split = "train";
    return chosen;
  }

  // `part` was not a subset's name: perhaps it was meant for one.
  const CardSubset& Default(const std::string& part) const {
    const CardSubset* found = nullptr;
    for (const CardSubset& subset : subsets_) {
      if (subsets_.size() > 1 && subset.name != "default" && !subset.is_default) continue;
      if (found != nullptr)
        throw InputError(repository_.who, " has two default subsets, ", found->name, " and ", subset.name,
                         "; name one after a colon");
      found = &subset;
    }
    if (found != nullptr) return *found;
    throw InputError(repository_.who, part.empty() ? " has" : Concat(" has no subset '", part, "': it has"),
                     " several subsets and no default one; name one after a colon: ", Names());
  }

  std::vector<std::string> Below(const std::string& folder) const {
    if (folder.empty()) return repository_.files;
    std::vector<std::string> names;
    for (const std::string& file : repository_.files) {
      if (file.starts_with(folder)) names.push_back(file.substr(folder.size()));
    }
    return names;
  }

  static std::string FolderOf(const CardSubset& subset) {
    std::string folder = subset.folder;
    while (folder.starts_with("./")) folder.erase(0, 2);
    while (folder.ends_with('/')) folder.pop_back();
    return folder.empty() || folder == "." ? "" : folder + "/";
  }

  std::vector<std::string> FilesOf(const CardSubset& subset, const std::string& split) const {
    if (!subset.refused.empty())
      throw InputError(repository_.who, ": its card sets ", subset.refused, " for the subset ", subset.name,
                       ", which is not supported; download its files, and name them in data.train");
    const std::string folder = FolderOf(subset);
    const std::vector<std::string> below = Below(folder);
    const std::vector<SplitPatterns> splits = subset.splits ? *subset.splits : DefaultSplits(below);
    const auto found = std::ranges::find_if(splits, [&](const SplitPatterns& one) { return one.split == split; });
    if (found == splits.end()) RefuseSplit(subset, splits, split);
    if (found->partial)
      throw InputError(repository_.who, ": the hub has converted only a part of the split ", split, InSubset(subset),
                       "; download its files, convert them, and name them in data.train");
    std::vector<std::string> files = Matching(*found, below);
    if (repository_.card.empty()) KeepOneKind(files);
    for (std::string& file : files) file.insert(0, folder);
    CheckFiles(files, subset, split);
    return files;
  }

  [[noreturn]] void RefuseSplit(const CardSubset& subset, const std::vector<SplitPatterns>& splits,
                                const std::string& split) const {
    if (splits.empty()) throw InputError(repository_.who, " has no files of data", InSubset(subset));
    const std::string first = splits[0].split;
    throw InputError(repository_.who, " has no split '", split, "'", InSubset(subset), "; it has ",
                     Join(splits, ", ", [](const SplitPatterns& one) { return one.split; }),
                     subsets_.size() > 1 ? Concat("; its subsets are ", Names()) : "",
                     ": name one after a colon, as in :", subsets_.size() > 1 ? subset.name + "/" : "", first);
  }

  std::string InSubset(const CardSubset& subset) const {
    return repository_.card.empty() ? "" : Concat(" in its subset ", subset.name);
  }

  // By pattern, and sorted for each; a file that two patterns name is read twice, as `datasets` does.
  std::vector<std::string> Matching(const SplitPatterns& split, const std::vector<std::string>& below) const {
    std::vector<std::string> files;
    for (const std::string& pattern : split.patterns) {
      if (pattern.find("://") != std::string::npos || pattern.starts_with('/') || pattern.find("..") == 0)
        throw InputError(repository_.who, ": its card names ", pattern,
                         ", which is elsewhere; wanted files of its own");
      const std::vector<std::string> found = MatchingFiles(pattern, below);
      if (found.empty() && !IsGlob(pattern))
        throw InputError(repository_.who, ": its card names the file ", pattern, ", which it does not have");
      files.insert(files.end(), found.begin(), found.end());
    }
    std::erase_if(files, [](const std::string& file) { return ExtensionsOf(file).empty(); });
    return files;
  }

  static void KeepOneKind(std::vector<std::string>& files) {
    const std::string kind = KindOf(files);
    std::erase_if(files, [&](const std::string& file) { return !IsOfKind(file, kind); });
  }

  void CheckFiles(const std::vector<std::string>& files, const CardSubset& subset, const std::string& split) const {
    if (files.empty())
      throw InputError(repository_.who, ": the split ", split, InSubset(subset), " has no file of a known kind");
    for (const std::string& file : files) {
      if (repository_.is_readable(file)) continue;
      throw InputError(repository_.who, ": the split ", split, InSubset(subset), " has the file ", file,
                       ", which is of a kind that is not read here; convert it to .jsonl or .parquet");
    }
  }

  const Repository& repository_;
  std::vector<CardSubset> subsets_;
};

}  // namespace

std::vector<std::string> CardFiles(const std::vector<std::string>& files) {
  std::vector<std::string> found;
  for (const char* name : {"README.md", ".huggingface.yaml"}) {
    if (std::ranges::find(files, name) != files.end()) found.emplace_back(name);
  }
  return found;
}

std::vector<std::string> FilesAskedFor(const Repository& repository, const HubSetName& name) {
  return Selection(repository).Files(name);
}

}  // namespace trireme
