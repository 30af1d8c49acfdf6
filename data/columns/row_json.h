// Rows of Arrow's arrays as JSON, as pyarrow's to_pylist makes Python objects of them: lists, structs as objects,
// dictionaries by their values. Knows no file.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>

#include "core/base/json.h"

namespace trireme {

// One object by the columns' names. The batch is valid (ValidateFull). Throws std::runtime_error for a type that has no
// counterpart.
Json RowJson(const arrow::RecordBatch& batch, int64_t row);

}  // namespace trireme
