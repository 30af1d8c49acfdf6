// Records of a file: JSON lines, a JSON list, CSV, or lines of text, each as a JSON object by its index. What
// a record means is samples.h's business. Safe to read from many threads.
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
  // An input error with file and line where it is broken.
  virtual Json Read(int64_t record) const = 0;
  // "a.jsonl:7"
  virtual std::string Where(int64_t record) const = 0;
};

// By the ending of its name; refuses others.
std::unique_ptr<RecordFile> OpenRecords(const std::filesystem::path& path);

// Of the files it takes: ".jsonl, .json, …".
std::string RecordEndings();

// Whether OpenRecords would take it, by its name.
bool HoldsRecords(const std::filesystem::path& path);

}  // namespace trireme
