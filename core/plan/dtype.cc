// One table of element types.
#include "core/plan/dtype.h"

#include <string>

#include "core/base/error.h"
#include "core/base/text.h"

namespace trireme {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr Row kTypes[] = {
    {DType::kFp64, "fp64", 8},   {DType::kFp32, "fp32", 4},       {DType::kFp16, "fp16", 2},
    {DType::kBf16, "bf16", 2},   {DType::kFp8E4M3, "fp8e4m3", 1}, {DType::kInt64, "int64", 8},
    {DType::kInt32, "int32", 4}, {DType::kInt16, "int16", 2},     {DType::kInt8, "int8", 1},
    {DType::kUint8, "uint8", 1}, {DType::kBool, "bool", 1},
};

const Row& Find(DType dtype) {
  for (const Row& row : kTypes) {
    if (row.dtype == dtype) return row;
  }
  throw InputError("element type number ", static_cast<int>(dtype), " is unknown");
}

}  // namespace

int64_t ByteSize(DType dtype) { return Find(dtype).bytes; }

std::string_view Name(DType dtype) { return Find(dtype).name; }

DType DTypeFromName(std::string_view name) {
  for (const Row& row : kTypes) {
    if (row.name == name) return row.dtype;
  }
  throw InputError("element type '", name,
                   "' is unknown; known: ", Join(kTypes, ", ", [](const Row& row) { return row.name; }));
}

}  // namespace trireme
