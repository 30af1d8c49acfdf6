// ValueModel: the model that stage ppo trains beside a policy without values of its own: its session, its trainer, its
// passes. What it learns from a sampling is PpoPass's business.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stages/other_models.h"
#include "train/rollouts/rollout.h"
#include "train/step/trainer.h"

namespace trireme {

class ValueModel {
 public:
  // With its initial weights, or with all states of the checkpoint that the run resumes from. `policy` outlives it.
  // Collective.
  ValueModel(Session& policy, const std::optional<std::filesystem::path>& checkpoint);

  // By micro batch, of each token; undefined on ranks without the head. Nothing is differentiated. Collective.
  std::vector<at::Tensor> ValuesOf(const std::vector<PassInput>& inputs);
  // Forward and backward over an update's micro batches; the loss, without its weight. Collective.
  double Pass(const std::vector<PassInput>& inputs, BatchTotals totals, std::span<const Rollout> rollouts);
  const NamedSums& sums() const { return trainer_.sums(); }  // of the last pass

  const OtherModel& what() const { return what_; }
  Session& session() { return *session_; }
  Trainer& trainer() { return trainer_; }

 private:
  const OtherModel what_;
  const std::unique_ptr<Session> session_;
  Trainer trainer_;
};

}  // namespace trireme
