// RunSaver: saves checkpoints while a run trains. A save stalls the run only for a copy of this rank's share
// to host memory; the rest happens on a background thread. The format on disk is defined in
// checkpoint/; when to save is up to the loop.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/manifest.pb.h"
#include "checkpoint/store_writer.h"
#include "core/comm/job.h"
#include "core/io/background.h"
#include "train/trainer.h"

namespace trireme {

struct RunSaverOptions {
  std::filesystem::path output;  // of the run
  std::filesystem::path model;   // whose config and tokenizer files are copied along
  int keep = 0;                  // newest checkpoints; 0: all
  bool trained_only = false;     // untrained weights are stored elsewhere, as the base of an adapter
  checkpoint::Manifest header;   // what all checkpoints of the run have in common
};

class RunSaver {
 public:
  // `trainer` and `job` outlive it.
  RunSaver(Trainer& trainer, Job& job, RunSaverOptions options);

  // Collective. Waits for the previous save, copies, and returns while writing continues.
  void Save(const checkpoint::Progress& progress);
  // Throws if the save in progress has failed.
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
  std::vector<at::Tensor> host_;      // copies of shares; reused by every save
  std::vector<PieceToWrite> pieces_;  // parts of host_ that this rank writes
  Background background_;             // last: its thread reads the others
};

}  // namespace trireme
