// RemoteTrainer: runs units of remote training on all ranks: many models' pairs over one base, one model at a time in the
// session. Collective: every rank runs the same units in the same order. A unit that fails leaves its model as it was; what
// clients asked for, and in which order, is decided elsewhere.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "generation/engine.h"
#include "train/remote/remote_model.h"
#include "train/trainer.h"

namespace trireme {

// Sets what a session for remote training needs: pairs of the largest rank on all linear layers, nothing else trained. Refuses
// keys of the configuration that would change what clients compute.
void PrepareForRemoteTraining(Config& config, int64_t max_rank);

class RemoteTrainer {
 public:
  // Both outlive it. The engine generates without the session's own pairs.
  RemoteTrainer(Session& session, Engine& engine, int64_t max_rank);

  // The same outcome on every rank, but for saved files and log-probabilities.
  TrainOutcome Run(const TrainWork& work);

 private:
  void Do(const TrainWork& work, TrainOutcome& outcome);
  void Pass(const TrainWork& work, TrainOutcome& outcome);
  void Create(const TrainWork& work);
  RemoteModel& Find(const std::string& id);
  // The pairs of a saved adapter, for passes without gradients; the last few are kept.
  const std::string& OpenSaved(const std::string& directory);
  void ForgetSaved();
  // Its pairs are the session's from now on.
  void SwapIn(const std::string& id);
  Shares TakeGradients();
  // Throws the same on every rank if it throws on any.
  template <typename Call>
  void Agreed(const Call& call);

  Session& session_;
  Engine& engine_;
  Trainer trainer_;
  const PairShares layout_;
  std::map<std::string, std::unique_ptr<RemoteModel>> models_;
  std::deque<std::string> saved_;  // ids in models_ that are adapters' directories, oldest first
  std::string in_session_;         // whose pairs the session has
};

}  // namespace trireme
