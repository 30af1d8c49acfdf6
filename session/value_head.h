// ValueHead: the value head that LLaMA-Factory, or a run of stage ppo, writes beside a causal model or an adapter,
// value_head.safetensors: under its own names for a policy's value head, and as the score.weight of a reward model.
// There its bias, which moves all scores alike, has no part in training, and is added where scores are given out. No
// torch.
#pragma once

#include <memory>

#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_source.h"
#include "core/config.pb.h"
#include "parallel/graph/graph.h"

namespace trireme {

class ValueHead : public TensorSource {
 public:
  explicit ValueHead(const std::filesystem::path& file);

  bool Has(const std::string& name) const override;
  const TensorView& Find(const std::string& name) const override;
  TensorView Describe(const std::string& name) const override { return Find(name); }
  std::filesystem::path FileOf(const std::string& /*name*/) const override { return file_.path(); }
  double bias() const { return bias_; }

 private:
  const SafetensorsFile file_;
  double bias_ = 0;
};

// What the head of a reward model adds to each score. Refuses a model without a value head, whose scores would be
// drawn.
double ScoreBiasOf(const Config& config, const LayerGraph& graph);

// Beside the adapter that training or scoring starts from, or beside the model; nullptr: neither has one.
std::unique_ptr<ValueHead> FindValueHead(const Config& config);

}  // namespace trireme
