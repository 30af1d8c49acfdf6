// Writes a checkpoint: each rank one HDF5 file with its pieces, then one of them the index that shows every
// tensor whole, the manifest, and the name under which the checkpoint is complete. All of it happens in a
// folder aside, so that a checkpoint is whole or absent. Talks to no other rank: that all files are written
// is the caller's word, or AwaitRankFiles'.
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
  Shape shape;  // of the whole tensor
  Box box;
  const void* data = nullptr;  // element i of the box is data[sum of i * strides]
  Shape strides;
};

// The folder aside of a checkpoint: "checkpoint-20.part".
std::filesystem::path PartOf(const std::filesystem::path& directory);

// An empty folder aside; what an interrupted save left there is removed. Where the directory is there already
// that is refused, unless it is to be replaced.
void BeginAside(const std::filesystem::path& directory, bool replace = false);
// Gives what is aside its name, at once; what had the name goes.
void Publish(const std::filesystem::path& directory);

// This rank's file and the list of what is in it.
class RankFileWriter {
 public:
  RankFileWriter(const std::filesystem::path& directory, int rank);
  void Write(const PieceToWrite& piece);
  void Close();  // on the disk when it returns

 private:
  const std::filesystem::path part_;
  const int rank_;
  Hdf5File file_;
  checkpoint::Manifest list_;
  std::map<std::string, int> places_;  // of tensors in the list, by key
  std::vector<std::byte> scratch_;
};

// Waits until the lists of all ranks are there; `give_up` is asked in between and ends the wait.
bool AwaitRankFiles(const std::filesystem::path& directory, int ranks, const std::function<bool()>& give_up);

// After all ranks' files: the index, the manifest, the name. `header` has what manifest.proto knows beside
// files and tensors.
void CommitCheckpoint(const std::filesystem::path& directory, int ranks, checkpoint::Manifest header);

}  // namespace trireme
