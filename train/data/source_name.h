// An entry of data.train: a path or a pattern with perhaps a number of samples or a weight after it. Opens
// nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct SourceName {
  std::filesystem::path path;
  std::optional<int64_t> count;  // NAME#500
  std::optional<double> weight;  // NAME@0.3
};

// A path that is there as it was written is never taken apart. `key` names the entry in errors.
SourceName ParseSourceName(const std::string& text, const std::string& key);

// Whether it is Megatron's pair of files: PATH.idx, PATH.bin, or PATH with both beside it. The prefix, or
// nothing.
std::optional<std::filesystem::path> IndexedPrefix(const std::filesystem::path& path);

// A file itself, or all files with records or indexed data below a directory or among a pattern's matches
// (data/*.jsonl), sorted by name.
std::vector<std::filesystem::path> FilesOf(const std::filesystem::path& path, const std::string& key);

}  // namespace trireme
