// dataset_info.json as LLaMA-Factory has it: data sets by name, each with its file, its columns and its tags. Reads
// that file only; the records are read by their form (record_form.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/config.pb.h"
#include "data/record_form.h"
#include "stages/stage.h"

namespace trireme {

struct DescribedSet {
  std::filesystem::path path;    // a file, or a directory of them
  std::string hub_title = {};    // of a data set on a hub, which then has no path
  std::optional<int64_t> count;  // num_samples
  std::shared_ptr<const RecordForm> form;
};

class DatasetInfo {
 public:
  // `path`: the file, or its directory.
  explicit DatasetInfo(const std::filesystem::path& path);

  bool Names(const std::string& name) const { return entries_.contains(name); }
  // Whether it is an entry, or nearly: for errors about unknown names.
  std::string NamesLike(const std::string& name) const;
  // The name of an entry on a hub, as data.train would have it; empty for one with a file.
  std::string HubTitleOf(const std::string& name) const;
  // Throws an input error for an entry that is somewhere else, that the stage cannot use, or with keys of no meaning
  // here.
  DescribedSet Find(const std::string& name, const StageFacts& facts) const;

 private:
  std::filesystem::path path_;
  Json entries_;
};

}  // namespace trireme
