// Records of a file: JSON lines, a JSON list, CSV, or lines of text, each as a JSON object by its index. What
// a record means is defined in samples.h. Safe to read from many threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace trireme {

class RecordFile {
 public:
  virtual ~RecordFile() = default;
  virtual int64_t size() const = 0;
  // Throws an input error with file and line if the record is broken.
  virtual Json Read(int64_t record) const = 0;
  // "a.jsonl:7"
  virtual std::string Where(int64_t record) const = 0;
};

// By file extension; others are input errors.
std::unique_ptr<RecordFile> OpenRecords(const std::filesystem::path& path);

// Extensions of supported files: ".jsonl, .json, …".
std::string RecordEndings();

// Whether OpenRecords would accept it, judging by its name.
bool HoldsRecords(const std::filesystem::path& path);

}  // namespace trireme
