// SafetensorsFile: the tensors of one .safetensors file, as views of its mapped memory. Trusts nothing in the
// header without checking it against the file; any contradiction is refused and reported.
// safetensors_writer.h writes such files, hf_directory.h reads directories of several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "core/io/mapped_file.h"
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
  // Releases the memory of the pages that are entirely inside the tensor; they are read again when touched.
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
DType DTypeFromSafetensors(std::string_view name);  // throws InputError on an unsupported one

}  // namespace trireme
