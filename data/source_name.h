// An entry of data.train: a path, a glob, the name of a described data set or of one on a hub, optionally followed by a
// number of samples or a weight. Opens no data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/records.h"

namespace trireme {

class Config;  // core/config.pb.h

struct SourceName {
  std::filesystem::path path;
  std::optional<int64_t> count;                      // NAME#500
  std::optional<double> weight;                      // NAME@0.3
  std::shared_ptr<const RecordForm> form = nullptr;  // of a described data set
  std::vector<std::filesystem::path> files = {};     // of a data set of a hub, whose name is the path
};

// A path that exists as written is never split. `key` names the entry in errors.
SourceName ParseSourceName(const std::string& text, const std::string& key);
// Of a run: with data.dataset_info its names come first, and are described data sets.
SourceName ParseSourceName(const std::string& text, const std::string& key, const Config& config);

// The name on a hub that an entry has, or that it has in data.dataset_info, without a number of samples or a weight;
// nothing for what is on this machine. An input error for such a number that is none.
std::optional<std::string> HubTitle(const std::string& entry, const std::string& key, const Config& config);

// Whether it is Megatron's pair of files, given as PATH.idx, PATH.bin, or their common PATH. Returns the
// prefix, or nothing.
std::optional<std::filesystem::path> IndexedPrefix(const std::filesystem::path& path);

// The file itself, or all files with records or indexed data below a directory or among a glob's matches
// (data/*.jsonl), sorted by name.
std::vector<std::filesystem::path> FilesOf(const std::filesystem::path& path, const std::string& key);
// The same, with the form of their records.
std::vector<DataFile> FilesOf(const SourceName& name, const std::string& key);

}  // namespace trireme
