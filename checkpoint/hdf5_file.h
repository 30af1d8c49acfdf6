// The subset of HDF5 that a checkpoint needs: files of contiguous, aligned datasets, and files of virtual
// datasets that present them as full tensors. HDF5's errors become ours, with the file's name. HDF5 as
// packaged is not thread-safe: every call here holds one lock for the process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

// Contiguous datasets above a minimum size start at a multiple of this many bytes.
inline constexpr int64_t kDatasetAlignment = 4096;

struct VirtualPiece {  // of a full tensor
  std::string file;    // in the same directory as the virtual dataset's file
  std::string dataset;
  Box box;
};

class Hdf5File {
 public:
  // A new file, which must not exist yet.
  explicit Hdf5File(const std::filesystem::path& path);
  ~Hdf5File();
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  // "/weights/NAME": creates the groups on the path. Row-major elements; returns their offset in the file.
  uint64_t WriteDataset(const std::string& name, DType dtype, const Shape& shape, const void* data);
  // Presents pieces of other files as one tensor.
  void WriteVirtual(const std::string& name, DType dtype, const Shape& shape, const std::vector<VirtualPiece>& pieces);
  void WriteAttribute(const std::string& name, const std::string& text);  // of the file

  // Durable when it returns.
  void Close();

 private:
  std::filesystem::path path_;
  int64_t file_ = -1;  // hid_t
};

}  // namespace trireme
