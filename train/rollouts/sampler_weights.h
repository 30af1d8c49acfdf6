// SamplerWeights: the trained weights for a sampler outside: exports them before a sampling into a directory of their
// own (rl.sampler.weights), whole or not at all, and tells the sampler. Who samples is decided elsewhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "checkpoint/manifest.pb.h"
#include "train/report/logged_step.h"
#include "train/rollouts/completion_endpoint.h"
#include "train/rollouts/rollout_source.h"
#include "train/states/run_saver.h"
#include "train/step/trainer.h"

namespace trireme {

class SamplerWeights {
 public:
  // `trainer` outlives it. Collective.
  explicit SamplerWeights(Trainer& trainer);

  // What the sampler has for the sampling of this number, after that many optimizer steps: exported and announced if
  // one is due; the first of a process always is, since the sampler may have any. Throws a SamplerError where it cannot
  // be told. Collective.
  SharedWeights Share(int64_t sampling, int64_t steps);
  // Seconds that the exports since the last call took.
  MetricValues TakeMetrics();

 private:
  void Export(int64_t steps, const std::filesystem::path& target);
  // On rank 0: the name in requests, once the sampler has the weights.
  std::string Announce(int64_t steps, const std::filesystem::path& target);

  const Config& config_;
  Trainer& trainer_;
  Job& job_;
  const std::filesystem::path directory_, scratch_;
  const bool adapter_;
  checkpoint::Manifest header_;
  std::unique_ptr<CompletionEndpoint> endpoint_;  // on rank 0, if adapters are loaded by it
  std::optional<SharedWeights> shared_;
  double seconds_ = 0;
};

}  // namespace trireme
