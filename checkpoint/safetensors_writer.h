// Writes one .safetensors file atomically: to a temporary name, fsynced, renamed. Orders tensors like the
// Hugging Face writer: larger element types first, then by name.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

struct TensorToWrite {
  std::string name;
  DType dtype = DType::kFp32;
  Shape shape;
  const void* data = nullptr;  // row-major, contiguous
};

// The first bytes of a file with these tensors: the header's length and the header. Sorts the tensors into
// file order.
std::string SafetensorsHeader(std::vector<TensorToWrite>& tensors,
                              const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

// Overwrites an existing file of that name. A failed write reports the file and the reason, and keeps the
// existing file.
void WriteSafetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                      const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace trireme
