// The models that a run has beside the one it trains, as plain values: what a reference, a teacher, a value model,
// reward models and a copy for sampling are, before any of them is opened. Checks, the memory plan, the session,
// checkpoints and methods read this one list. A new role is a value of ModelRole and a line in stages/other_models.cc.
// No torch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stages/stage.h"

namespace trireme {

enum class ModelRole {
  kReference,  // with whose log-probabilities the run's own are compared
  kTeacher,    // whose distributions are learnt
  kValue,      // expects rewards, token by token
  kReward,     // gives them
  kSampler,    // the run's own model, which writes completions under another layout
};

struct OtherModel {
  ModelRole role = ModelRole::kReference;
  std::string name = {};          // in the log and in final_NAME
  std::string key = {};           // of the configuration, which names it
  std::string directory = {};     // of its first weights; empty: the run's own model, which brings them
  std::string own_is = "policy";  // what the run's own model is to it
  HeadKind head = HeadKind::kLogits;
  bool alike = false;                         // in its layers to the run's own model
  std::optional<ParallelConfig> layout = {};  // on the same ranks; by default that of the run's own
  std::string layout_key = {};
  std::string reads = {};       // why its tokens must be the run's; empty: it reads texts, or is the run's own
  bool of_samplings = false;    // asked while completions are written and judged, not in steps
  bool trained = false;         // beside the run's own
  bool offload = false;         // in host memory between its passes
  bool shard = false;           // over the data-parallel ranks, as zero 3 does
  std::string saved_as = {};    // folder in checkpoints, a checkpoint itself; empty: they have nothing of it
  std::string saved_with = {};  // the setting because of which it is saved
};

// All of a run. One that is named wrongly is an input error.
std::vector<OtherModel> OtherModels(const Config& config);
std::vector<OtherModel> OtherModels(const Config& config, ModelRole role);
// The first of this role.
std::optional<OtherModel> OtherModelOf(const Config& config, ModelRole role);
// The run's configuration with that model in place of its own, as it is opened.
Config ConfigOf(const Config& run, const OtherModel& model);
// Whether a model of this role has a layout of its own that splits it as the run's own does.
bool RepeatsLayout(const Config& config, ModelRole role);

}  // namespace trireme
