// A file of columns (Parquet, Arrow) as records: what the module that is linked with Arrow's libraries offers to the
// program, which is not. No exception leaves the module.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/json.h"

namespace trireme {

class ColumnFile {
 public:
  virtual ~ColumnFile() = default;
  virtual int64_t rows() const = 0;
  // Nothing, and the reason in `error`, where the row cannot be read. Safe to call from many threads.
  virtual Json Read(int64_t row, std::string& error) const = 0;
};

// The module's only function, by name: the file, or nothing and the reason in `error`.
using OpenColumnFile = ColumnFile*(const char* path, std::string& error);
inline constexpr const char* kOpenColumnFile = "trireme_open_column_file";

}  // namespace trireme
