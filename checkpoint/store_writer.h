// Writes a checkpoint: each rank writes one HDF5 file with its pieces; then one of them writes the index that
// presents every tensor in full, the manifest, and renames the directory when it is complete. All of it
// happens in a temporary directory, so that a checkpoint appears atomically. Does not communicate: the
// caller, or AwaitRankFiles, ensures that all files are written.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/hdf5_file.h"
#include "checkpoint/manifest.pb.h"
#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

struct PieceToWrite {
  std::string key;  // "weights/NAME"
  DType dtype = DType::kFp32;
  Shape shape;  // of the full tensor
  Box box;
  const void* data = nullptr;  // element i of the box is data[sum of i * strides]
  Shape strides;
};

// The temporary directory of a checkpoint: "checkpoint-20.part".
std::filesystem::path PartOf(const std::filesystem::path& directory);

// Creates an empty temporary directory, and removes what an interrupted save left there. Refuses an existing
// `directory` unless it is to be replaced.
void BeginAside(const std::filesystem::path& directory, bool replace = false);
// Renames the temporary directory atomically; removes what had the name.
void Publish(const std::filesystem::path& directory);

// This rank's file and the list of its content.
class RankFileWriter {
 public:
  RankFileWriter(const std::filesystem::path& directory, int rank);
  void Write(const PieceToWrite& piece);
  void Close();  // durable when it returns

 private:
  const std::filesystem::path part_;
  const int rank_;
  Hdf5File file_;
  checkpoint::Manifest list_;
  std::map<std::string, int> positions_;  // index in the list, by key
  std::vector<std::byte> scratch_;
};

// Waits until the lists of all ranks exist; polls `give_up`, which ends the wait.
bool AwaitRankFiles(const std::filesystem::path& directory, int ranks, const std::function<bool()>& give_up);

// After all ranks' files: writes the index and the manifest, and renames. `header` has the fields of
// manifest.proto other than files and tensors.
void CommitCheckpoint(const std::filesystem::path& directory, int ranks, checkpoint::Manifest header);

}  // namespace trireme
