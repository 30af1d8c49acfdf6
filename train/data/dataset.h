// The data of a run: what data.train and data.valid name, prepared, drawn, weighed, limited in length and
// packed, as rows that any rank finds by index. Which row is trained when is row_order.h's business.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "train/data/row_store.h"
#include "train/data/row_views.h"

namespace trireme {

struct DataSets {
  Rows train;
  Rows valid;  // null where the run has none
  int64_t samples = 0;  // to train on, before they were packed
};

struct DataPlace {
  int64_t vocabulary = 0;  // of the model: no id may be beyond it
  bool works = true;       // whether this process tokenises; one a host does
  bool reports = true;     // whether it says what was left out
};

// Not collective. Refuses, before any training, what cannot be read and data with nothing to learn.
DataSets OpenDataSets(const Config& config, const DataPlace& place);

// Of a row, in tokens: data.max_length, or that of both sides of a pair.
int64_t LongestRow(const Config& config);

// The samples of a prepared file that a run takes, by data.max_length and data.over_length; a pair is one.
Rows TakenOf(std::shared_ptr<const RowStore> store, const Config& config);
// What it leaves out or changes, a line each: broken records, samples that are too long, samples with nothing
// to learn. `path` names the file.
std::vector<std::string> LeftOutOf(const std::filesystem::path& path, const RowStore& store,
                                   const Config& config);

}  // namespace trireme
