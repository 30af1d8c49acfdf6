// The data of a run: the sources in data.train and data.valid, prepared, sampled, weighted, limited in length
// and packed, as rows that any rank can read by index. Which row is trained when is decided in
// batch_sampler.h.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "data/row_store.h"
#include "data/row_views.h"

namespace trireme {

struct DataSets {
  Rows train;
  Rows valid;           // null if the run has none
  int64_t samples = 0;  // to train on, before packing; 0: unknown, as the data is streamed
};

struct DataPlace {
  int64_t vocabulary = 0;  // of the model: no id may be beyond it
  bool works = true;       // whether this process tokenizes; one per host does
  bool reports = true;     // whether it reports what was skipped
};

// Not collective. Unreadable data and data with nothing to train on are input errors before any training.
DataSets OpenDataSets(const Config& config, const DataPlace& place);

// Of a row, in tokens: data.max_length, or that of both sides of a pair.
int64_t LongestRow(const Config& config);

// The samples of a prepared file that a run takes, by data.max_length and data.over_length; a pair is one.
Rows TakenOf(std::shared_ptr<const RowStore> store, const Config& config);
// What it leaves out or changes, a line each: broken records, samples that are too long, samples with nothing
// to learn. `path` names the file.
std::vector<std::string> LeftOutOf(const std::filesystem::path& path, const RowStore& store, const Config& config);

}  // namespace trireme
