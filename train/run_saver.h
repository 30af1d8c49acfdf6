// RunSaver: checkpoints of a run while it trains. A save stops the run only for a copy of this rank's share
// to host memory; the rest happens on a thread of its own. What a checkpoint looks like on the disk is
// checkpoint/'s business, when one is due the loop's.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/background.h"
#include "checkpoint/manifest.pb.h"
#include "checkpoint/store_writer.h"
#include "core/comm/job.h"
#include "train/trainer.h"

namespace trireme {

struct RunSaverOptions {
  std::filesystem::path output;  // of the run
  std::filesystem::path model;   // whose config and tokenizer files go along
  int keep = 0;                  // newest checkpoints; 0: all
  bool trained_only = false;     // what is not trained is elsewhere, as the base of an adapter
  checkpoint::Manifest header;   // what all checkpoints of the run have in common
};

class RunSaver {
 public:
  // `trainer` and `job` outlive it.
  RunSaver(Trainer& trainer, Job& job, RunSaverOptions options);

  // Collective. Waits for the save before, copies, and returns while the writing goes on.
  void Save(const checkpoint::Progress& progress);
  // Throws where the save under way has failed.
  void ThrowIfFailed() { background_.ThrowIfFailed(); }
  // Collective. Every save is complete when it returns.
  void Finish();

 private:
  void Copy();
  void CopyShare(size_t index, Bucket& bucket, const std::string& state, const at::Tensor& share);
  void Describe(Bucket& bucket, const std::string& state, const at::Tensor& host);
  void WriteFiles(const std::filesystem::path& directory, const checkpoint::Progress& progress);

  Trainer& trainer_;
  Job& job_;
  const RunSaverOptions options_;
  std::vector<at::Tensor> host_;      // copies of shares; the memory serves every save
  std::vector<PieceToWrite> pieces_;  // of host_ that this rank writes
  Background background_;             // last: its thread reads the others
};

}  // namespace trireme
