// The `torch_dist` format, written: tensors of the whole model in chunks, layers and experts along leading axes. The
// inverse of dist_files.cc.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/megatron/dist_metadata.h"
#include "checkpoint/megatron/written_model.h"

namespace trireme {

class DistWriter {
 public:
  // All outlive it. Of `ranks`, each writes one file with its share of the tensors.
  DistWriter(const WrittenModel& model, const MegatronExport& options, std::filesystem::path iteration, int ranks);

  void WriteChunks(int rank) const;
  // Of the files of all ranks.
  DistMetadata Metadata() const;

 private:
  struct Chunk;
  struct Stacked;

  Stacked StackedOf(const std::string& name) const;
  std::vector<Chunk> ChunksOf(int rank) const;
  void AddTensor(const WrittenTensor& tensor, std::vector<Chunk>& chunks) const;
  void AddStates(const std::string& name, const Stacked& stacked, std::vector<Chunk>& chunks) const;

  const WrittenModel& model_;
  const MegatronExport& options_;
  std::filesystem::path iteration_;
  int ranks_;
  bool layers_are_equal_;  // and stacked
};

}  // namespace trireme
