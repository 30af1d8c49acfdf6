// DType: the element types of tensors in memory and in files, with their sizes and names. No conversion.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

enum class DType { kFp64, kFp32, kFp16, kBf16, kFp8E4M3, kInt64, kInt32, kInt16, kInt8, kUint8, kBool };

int64_t ByteSize(DType dtype);
std::string_view Name(DType dtype);          // "fp32", "bf16", …, as a user writes it
DType DTypeFromName(std::string_view name);  // an unknown name is an InputError that lists the known ones

}  // namespace trireme
