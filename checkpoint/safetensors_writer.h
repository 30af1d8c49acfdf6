// Writes one .safetensors file, whole or not at all: into a file aside, fsynced, renamed. The order of
// tensors is that of the Hugging Face writer: larger element types first, then by name.
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

// The first bytes of a file with these tensors: the header's length and the header. Sorts them into their
// order.
std::string SafetensorsHeader(std::vector<TensorToWrite>& tensors,
                              const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

// Overwrites an existing file of that name. A failing write names the file and the reason, and leaves what
// was there.
void WriteSafetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                      const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace trireme
