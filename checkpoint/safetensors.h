// SafetensorsFile: the tensors of one .safetensors file, as views of its mapped memory. Believes nothing in
// the header that the file does not bear out: a lie is named and refused, whatever it is. Writing is
// safetensors_writer.h, directories of several files are hf_directory.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/mapped_file.h"
#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

struct TensorView {
  DType dtype = DType::kFp32;
  Shape shape;
  std::span<const std::byte> bytes;  // row-major, little-endian
};

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return file_.path(); }
  // Gives back the memory of the pages that lie wholly inside the tensor; they are read again when touched.
  void Release(const std::string& name) const;

 private:
  void ReadHeader();
  void CheckNoHoles(uint64_t buffer_bytes) const;

  MappedFile file_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

// The format's own names, "BF16", "F32", …
std::string_view SafetensorsName(DType dtype);
DType DTypeFromSafetensors(std::string_view name);  // throws InputError on one that is not ours

}  // namespace trireme
