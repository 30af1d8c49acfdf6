#include "data/rows.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "data/row_images.h"
#include "data/row_keys.h"

namespace trireme {
namespace {

std::vector<int64_t> ReadIds(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) throw InputError(where, ": wanted a list '", key, "'");
  std::vector<int64_t> ids;
  for (const Json& id : *found) {
    if (!id.is_number_integer()) throw InputError(where, ": ", key, " has ", id.dump(), "; wanted whole numbers");
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

void CheckIds(const std::vector<int64_t>& ids, int64_t vocabulary, const std::string& where) {
  if (ids.empty()) throw InputError(where, ": the row is empty");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocabulary) continue;
    throw InputError(where, ": input_ids[", i, "] = ", ids[i], " is outside the vocabulary of ", vocabulary);
  }
}

void CheckRow(const Row& row, int64_t vocabulary, const std::string& where) {
  CheckIds(row.input_ids, vocabulary, where);
  if (row.input_ids.size() != row.labels.size()) {
    throw InputError(where, ": ", row.input_ids.size(), " input_ids and ", row.labels.size(),
                     " labels; wanted equally many");
  }
  for (size_t i = 0; i < row.input_ids.size(); ++i) {
    const int64_t label = row.labels[i];
    if (label != kNotTrained && (label < 0 || label >= vocabulary)) {
      throw InputError(where, ": labels[", i, "] = ", label, " is neither -100 nor in the vocabulary of ", vocabulary);
    }
  }
}

void CheckStarts(const Row& row, const std::string& where) {
  const auto tokens = static_cast<int64_t>(row.input_ids.size());
  for (size_t i = 0; i < row.starts.size(); ++i) {
    const int64_t least = i == 0 ? 0 : row.starts[i - 1] + 1, most = i == 0 ? 0 : tokens - 1;
    if (row.starts[i] >= least && row.starts[i] <= most) continue;
    throw InputError(where, ": starts[", i, "] = ", row.starts[i],
                     "; wanted 0 first, then ascending positions of the row's ", tokens, " tokens");
  }
}

std::vector<float> ReadWeights(const Json& object, size_t tokens, const std::string& where) {
  const Json& list = object.at("weights");
  if (!list.is_array() || list.size() != tokens) {
    throw InputError(where, ": weights: wanted a list of ", tokens, " numbers, one per label");
  }
  std::vector<float> weights;
  for (const Json& weight : list) {
    if (!weight.is_number() || !std::isfinite(weight.get<float>())) {
      throw InputError(where, ": weights has ", weight.dump(), "; wanted finite numbers");
    }
    weights.push_back(weight.get<float>());
  }
  return weights;
}

void CheckSamples(const Row& row, const std::string& where) {
  const size_t documents = std::max<size_t>(row.starts.size(), 1);
  if (!row.samples.empty() && row.samples.size() != documents) {
    throw InputError(where, ": ", row.samples.size(), " samples for ", documents,
                     " documents; wanted one per document");
  }
  for (const int64_t sample : row.samples) {
    if (sample < 0 || sample >= static_cast<int64_t>(documents)) {
      throw InputError(where, ": samples has ", sample, "; wanted numbers from 0 to ", documents - 1);
    }
  }
}

void CheckAllWeighted(const std::vector<Row>& rows, const std::string& path) {
  const auto weighted = std::count_if(rows.begin(), rows.end(), [](const Row& row) { return !row.weights.empty(); });
  if (weighted == 0 || weighted == std::ssize(rows)) return;
  throw InputError(path, ": ", weighted, " of ", rows.size(), " rows have weights; wanted all or none");
}

// A key that nobody reads would make it another row.
void CheckKeys(const Json& object, const std::string& where) {
  try {
    RefuseOtherKeys(
        object, {"input_ids", "labels", "starts", "weights", "samples", "pixel_values", "image_grid_thw", "images"});
  } catch (const Error& error) {
    throw InputError(where, ": ", error.what());
  }
}

// Calls take(object, where) for every non-blank line; a file without any is an input error.
template <typename Take>
void ForEachObject(const std::string& path, const Take& take) {
  std::istringstream file(ReadTextFile(path));
  bool found = false;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (IsBlank(line)) continue;
    const std::string where = Concat(path, ":", number);
    const Json object = TryParseJson(line);
    if (IsNestedTooDeeply(line)) {
      throw InputError(where, ": is nested too deeply; at most ", kDeepestJson, " levels are read");
    }
    if (!object.is_object()) throw InputError(where, ": is not a JSON object: ", line.substr(0, 60));
    CheckKeys(object, where);
    take(object, where);
    found = true;
  }
  if (!found) throw InputError(path, ": has no rows");
}

}  // namespace

std::vector<Row> ReadRows(const std::string& path, int64_t vocabulary, const ImageInputs* images) {
  std::vector<Row> rows;
  ForEachObject(path, [&](const Json& object, const std::string& where) {
    Row row{ReadIds(object, "input_ids", where), ReadIds(object, "labels", where)};
    if (object.contains("starts")) row.starts = ReadIds(object, "starts", where);
    CheckRow(row, vocabulary, where);
    CheckStarts(row, where);
    if (object.contains("weights")) row.weights = ReadWeights(object, row.labels.size(), where);
    if (object.contains("samples")) row.samples = ReadIds(object, "samples", where);
    CheckSamples(row, where);
    ReadRowImages(object, where, std::filesystem::path(path).parent_path(), images, row);
    rows.push_back(std::move(row));
  });
  CheckAllWeighted(rows, path);
  return rows;
}

std::vector<Row> ReadPrompts(const std::string& path, int64_t vocabulary, const ImageInputs* images) {
  std::vector<Row> prompts;
  ForEachObject(path, [&](const Json& object, const std::string& where) {
    Row row{.input_ids = ReadIds(object, "input_ids", where), .labels = {}};
    CheckIds(row.input_ids, vocabulary, where);
    if (images != nullptr) ReadRowImages(object, where, std::filesystem::path(path).parent_path(), images, row);
    prompts.push_back(std::move(row));
  });
  return prompts;
}

int64_t CountTrained(const Row& row) {
  int64_t count = 0;
  for (size_t i = 1; i < row.labels.size(); ++i) count += row.labels[i] != kNotTrained;
  for (const int64_t start : row.starts) count -= start > 0 && row.labels[start] != kNotTrained;
  return count;
}

int64_t CountTrained(const std::vector<Row>& rows) {
  int64_t count = 0;
  for (const Row& row : rows) count += CountTrained(row);
  return count;
}

RowExtent RowList::Extent(int64_t row) const {
  RowExtent extent{DocumentLengths(rows_[row]), rows_[row].grids};
  if (extent.documents.empty()) extent.documents = {Length(row)};
  return extent;
}

std::vector<int64_t> AllRows(const RowSource& rows) {
  std::vector<int64_t> all(static_cast<size_t>(rows.size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

int64_t RowList::Trained(int64_t row) const { return CountTrained(rows_[row]); }

}  // namespace trireme
