// RemoteTrainer: runs units of remote training on all ranks: many models' adapters over one base. The session's
// adapters have slots for several models, whose rows share a pass. Collective: every rank runs the same units in the
// same order. A unit that fails leaves its model as it was; what clients asked for, and in which order, is decided
// elsewhere.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "generation/engine.h"
#include "train/remote/agreed.h"
#include "train/remote/idle_models.h"
#include "train/remote/remote_model.h"
#include "train/remote/remote_pass.h"
#include "train/step/trainer.h"

namespace trireme {

struct RemoteLimits {
  int64_t max_rank = 32;       // of a model's adapters
  int64_t slots = 8;           // models whose rows may share a pass
  int64_t in_memory = 8;       // models; others wait in files
  std::string directory = {};  // of these files
};

// Refuses keys of the configuration that would add to the losses that clients ask for.
void RefuseOtherLosses(const Config& config);
// Sets what a session for remote training needs: adapters of all slots on all linear layers, nothing else trained.
// Refuses what RefuseOtherLosses does.
void PrepareForRemoteTraining(Config& config, const RemoteLimits& limits);

class RemoteTrainer {
 public:
  // Both outlive it. The engine generates without the session's own adapters.
  RemoteTrainer(Session& session, Engine& engine, const RemoteLimits& limits);

  // One unit, or passes that may join (MayJoin). The same outcomes on every rank, but for saved files and
  // log-probabilities.
  std::vector<TrainOutcome> Run(const std::vector<TrainWork>& works);

 private:
  // A pass of one model among those that run together.
  struct Passing {
    const TrainWork* work = nullptr;
    TrainOutcome* outcome = nullptr;
    std::string id = {};   // in models_
    size_t first_row = 0;  // among those of all
  };
  void Do(const TrainWork& work, TrainOutcome& outcome);
  void Pass(std::vector<Passing> all);
  void PassTogether(std::vector<Passing>& passing);
  // What the log-probabilities count in the gradient, and the losses.
  TokenTable Weigh(const std::vector<Passing>& passing, const TokenTable& found) const;
  void Create(const TrainWork& work);
  void Load(const TrainWork& work);
  std::unique_ptr<RemoteModel> NewModel(const TrainedAdapters& adapters) const;
  RemoteModel& Find(const std::string& id);
  // A saved model's adapters, for passes without gradients; the last few are kept.
  const std::string& OpenSaved(const std::string& directory);
  void ForgetSaved();
  // Reads the models that works need if they wait in files, and afterwards lets others wait there.
  void Wake(const std::string& id);
  void Rest(int64_t busy);
  void Changed(const std::string& id) {
    std::erase_if(in_slot_, [&](const auto& entry) { return entry.second == id; });
  }
  // Their adapters are in their slots of the session from now on.
  void SwapIn(const std::vector<Passing>& passing);
  void TakeGradients(const std::vector<Passing>& passing);
  template <typename Call>
  static void Guarded(TrainOutcome& outcome, const Call& call) {
    GuardInto(outcome, call);
  }
  template <typename Call>
  void Agreed(const Call& call) {
    AgreeOn(session_.job(), call);
  }

  Session& session_;
  Engine& engine_;
  Trainer trainer_;
  const AdapterShards layout_;
  IdleModels idle_;
  std::map<std::string, std::unique_ptr<RemoteModel>> models_;
  std::set<std::string> parked_;  // ids in models_ that wait in files, the same on every rank
  bool said_idle_ = false;
  std::deque<std::string> saved_;           // ids in models_ that are adapters' directories, oldest first
  std::map<int64_t, std::string> in_slot_;  // whose adapters the session's slots have
};

}  // namespace trireme
