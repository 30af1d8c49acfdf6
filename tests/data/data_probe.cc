// For the parity tests: the rows of a run's training data, one JSON object per line, as any rank would find
// them by index; with a trailing --count, only the numbers of rows and tokens. With --records and files: one line per
// file, with all its records or with why it is refused; with --count-records and a file, how many it has, after reading
// all of them.
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/config/load.h"
#include "data/dataset.h"
#include "data/records.h"
#include "text/all_cores.h"

namespace trireme {
namespace {

Json RecordsOf(const char* path) {
  try {
    const std::unique_ptr<RecordFile> file = OpenRecords(std::filesystem::path(path));
    Json records = Json::array();
    for (int64_t i = 0; i < file->size(); ++i) records.push_back(file->Read(i));
    return {{"records", std::move(records)}};
  } catch (const Error& error) {
    return {{"error", error.what()}, {"status", error.exit_status()}};
  }
}

int CountRecords(const char* path) {
  const std::unique_ptr<RecordFile> file = OpenRecords(std::filesystem::path(path));
  std::vector<size_t> keys(file->size());
  OnAllCores(keys.size(), [&](size_t i) { keys[i] = file->Read(static_cast<int64_t>(i)).size(); });
  size_t values = 0;
  for (const size_t count : keys) values += count;
  std::cout << JsonLine({{"records", keys.size()}, {"values", values}}) << "\n";
  return 0;
}

int CountRows(const DataSets& data) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < data.train->size(); ++i) tokens += data.train->Length(i);
  std::cout << JsonLine({{"rows", data.train->size()}, {"tokens", tokens}}) << "\n";
  return 0;
}

int PrintRows(const DataSets& data) {
  for (const Rows& rows : {data.train, data.valid}) {
    for (int64_t i = 0; rows && i < rows->size(); ++i) {
      const Row row = rows->Read(i);
      Json images = Json::array();
      for (const RowImage& image : row.images) images.push_back({image.first, image.grid.height, image.grid.width});
      const double pixels = row.patches ? std::accumulate(row.patches->begin(), row.patches->end(), 0.0) : 0;
      std::cout << JsonLine({{"valid", rows == data.valid},
                             {"input_ids", row.input_ids},
                             {"labels", row.labels},
                             {"starts", row.starts},
                             {"values", row.values},
                             {"images", images},
                             {"pixels", pixels},
                             {"trained", rows->Trained(i)}})
                << "\n";
    }
  }
  return 0;
}

int Probe(const std::vector<char*>& arguments) {
  const std::string first = arguments.at(1);
  if (first == "--count-records") return CountRecords(arguments.at(2));
  if (first == "--records") {
    for (size_t i = 2; i < arguments.size(); ++i) std::cout << JsonLine(RecordsOf(arguments[i])) << "\n";
    return 0;
  }
  const DataSets data = OpenDataSets(LoadConfig(first, {}), {.vocabulary = 1 << 30});
  const bool count = arguments.size() > 2 && std::string(arguments[2]) == "--count";
  return count ? CountRows(data) : PrintRows(data);
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    return trireme::Probe({argv, argv + argc});
  } catch (const trireme::Error& error) {
    std::cerr << error.what() << "\n";
    return error.exit_status();
  }
}
