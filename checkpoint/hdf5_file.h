// The little of HDF5 that a checkpoint needs: files of contiguous, aligned datasets, and files of virtual
// datasets that show them whole. HDF5's errors become ours, with the file's name. HDF5 as packaged is not
// safe for threads: every call here takes one lock for the process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

// Contiguous datasets of some size begin at a multiple of this many bytes of the file.
inline constexpr int64_t kDatasetAlignment = 4096;

struct VirtualPiece {  // of a whole tensor
  std::string file;    // beside the file that shows it
  std::string dataset;
  Box box;
};

class Hdf5File {
 public:
  // A new file, which must not be there yet.
  explicit Hdf5File(const std::filesystem::path& path);
  ~Hdf5File();
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  // "/weights/NAME": groups on the way are made. Row-major elements; returns where in the file they begin.
  uint64_t WriteDataset(const std::string& name, DType dtype, const Shape& shape, const void* data);
  // Shows pieces of other files as one tensor.
  void WriteVirtual(const std::string& name, DType dtype, const Shape& shape,
                    const std::vector<VirtualPiece>& pieces);
  void WriteAttribute(const std::string& name, const std::string& text);  // of the file

  // On the disk when this returns.
  void Close();

 private:
  std::filesystem::path path_;
  int64_t file_ = -1;  // hid_t
};

}  // namespace trireme
