// RunSaver: saves checkpoints while a run trains. A save stalls the run only for a copy of this rank's share
// to host memory; the rest happens on a background thread. The format on disk is defined in
// checkpoint/; when to save is up to the loop.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/manifest.pb.h"
#include "core/comm/job.h"
#include "core/io/background.h"
#include "train/states/model_copy.h"
#include "train/step/trainer.h"

namespace trireme {

struct RunSaverOptions {
  std::filesystem::path output;  // of the run
  std::filesystem::path model;   // whose config and tokenizer files are copied along
  int keep = 0;                  // newest checkpoints; 0: all
  bool weights_only = false;     // without the optimizer's states: not to resume from
  bool trained_only = false;     // untrained weights are stored elsewhere, as the base of an adapter
  checkpoint::Manifest header;   // what all checkpoints of the run have in common
  std::map<std::string, std::string> files =
      {};  // texts by path that are written beside the model's, or in their place
};

class RunSaver {
 public:
  // `trainer` and `job` outlive it.
  RunSaver(Trainer& trainer, Job& job, RunSaverOptions options);

  // Before the first save: another model that checkpoints contain, as a checkpoint of its own in this folder of theirs.
  // `optimizer`: nullptr for one that is not trained. Both outlive it.
  void Add(const std::string& folder, Session& session, ShardedOptimizer* optimizer);
  // Collective. Waits for the previous save, copies, and returns while writing continues.
  void Save(const checkpoint::Progress& progress);
  // Throws if the save in progress has failed.
  void ThrowIfFailed() { background_.ThrowIfFailed(); }
  // Collective. Every save is complete when it returns.
  void Finish();

 private:
  struct Saved {
    std::string folder;           // empty: the checkpoint itself
    std::filesystem::path model;  // whose files are copied along
    checkpoint::Manifest header;
    std::unique_ptr<ModelCopy> copy;
  };

  void WriteFiles(const std::filesystem::path& directory, const checkpoint::Progress& progress);
  bool Commit(const std::filesystem::path& directory, const Saved& saved, const checkpoint::Progress& progress);

  Job& job_;
  const RunSaverOptions options_;
  std::vector<Saved> saved_;  // the run's own model is the last: it holds the others
  Background background_;     // last: its thread reads the others
};

}  // namespace trireme
