// FullTrainer: runs units of remote training on all ranks where one model is trained with all its parameters, which are
// the session's own: what it trains is what the engine generates with. Collective: every rank runs the same units in
// the same order. A unit that fails leaves the model as it was. Which sampler may use the weights is decided elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "generation/engine.h"
#include "train/remote/train_work.h"
#include "train/remote/work_losses.h"
#include "train/step/trainer.h"

namespace trireme {

// Sets what a session for it needs: all parameters trained, AdamW's states. Refuses keys that would change what clients
// compute.
void PrepareForFullTraining(Config& config);

class FullTrainer {
 public:
  // Both outlive it.
  FullTrainer(Session& session, Engine& engine);

  // One after another. While one changes weights (create, step, load, drop) the engine has no rows. The same outcomes
  // on every rank, but for log-probabilities.
  std::vector<TrainOutcome> Run(const std::vector<TrainWork>& works);

 private:
  void Do(const TrainWork& work, TrainOutcome& outcome);
  void Pass(const TrainWork& work, TrainOutcome& outcome);
  // Of a pass whose weights are known: gradients are added to those of earlier ones.
  TokenTable Backward(const TrainWork& work, const TokenTable& weights);
  double Step(const AdamNumbers& adam);
  // The weights that the server started with, and no moments.
  void Restore();
  void KeepInitial();
  void CheckModel(const std::string& id) const;
  void DropGradients();

  Session& session_;
  Engine& engine_;
  Trainer trainer_;
  std::string model_;                // its id; empty: none
  std::vector<at::Tensor> initial_;  // masters by bucket, in host memory; empty before the first model
};

}  // namespace trireme
