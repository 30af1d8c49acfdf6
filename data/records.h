// Records of a file: JSON lines, a JSON list, CSV, or lines of text, each as a JSON object by its index. What
// a record means is defined in samples.h. Safe to read from many threads.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"

namespace trireme {

struct RecordForm;  // record_form.h

// A file of records. Its form, where its data set has a description; otherwise each record shows its own.
struct DataFile {
  template <std::convertible_to<std::filesystem::path> Path>
  DataFile(Path&& path, std::shared_ptr<const RecordForm> form = nullptr)  // NOLINT: a path, however written, is one
      : path(std::forward<Path>(path)), form(std::move(form)) {}

  std::filesystem::path path;
  std::shared_ptr<const RecordForm> form;
};

class RecordFile {
 public:
  virtual ~RecordFile() = default;
  virtual int64_t size() const = 0;
  // Throws an input error with file and line if the record is broken.
  virtual Json Read(int64_t record) const = 0;
  // "a.jsonl:7"
  virtual std::string Where(int64_t record) const = 0;
};

// What `use` makes of a record. Its errors, which do not know the place, get it put before them.
template <class Use>
auto UseRecord(const RecordFile& records, int64_t record, Use use) {
  Json value = records.Read(record);
  try {
    return use(std::move(value));
  } catch (const Error& error) {
    throw Error(error.kind(), Concat(records.Where(record), ": ", error.what()));
  } catch (const Json::exception& error) {  // a value of a type that no format has there
    throw InputError(records.Where(record), ": ", error.what());
  }
}

// By file extension; others are input errors.
std::unique_ptr<RecordFile> OpenRecords(const DataFile& file);

// Extensions of supported files: ".jsonl, .json, …".
std::string RecordEndings();

// Whether OpenRecords would accept it, judging by its name.
bool HoldsRecords(const std::filesystem::path& path);

}  // namespace trireme
