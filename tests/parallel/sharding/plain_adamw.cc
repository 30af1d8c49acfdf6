#include "tests/parallel/sharding/plain_adamw.h"

#include <torch/optim/adamw.h>

#include <vector>

namespace trireme {

struct PlainAdamW::Torch {
  std::map<std::string, at::Tensor> values;
  std::unique_ptr<torch::optim::AdamW> optimizer;

  const torch::optim::AdamWParamState& StateOf(const std::string& name) const {
    auto* key = values.at(name).unsafeGetTensorImpl();
    return static_cast<const torch::optim::AdamWParamState&>(*optimizer->state().at(key));
  }
};

PlainAdamW::PlainAdamW(const std::map<std::string, at::Tensor>& values, const PlainOptions& options)
    : torch_(std::make_unique<Torch>()) {
  std::vector<at::Tensor> decayed, spared;
  for (const auto& [name, value] : values) {
    const at::Tensor mine = value.clone().set_requires_grad(true);
    torch_->values[name] = mine;
    (value.dim() > 1 ? decayed : spared).push_back(mine);
  }
  const auto with_decay = [&](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(options.learning_rate)
                                                            .betas({options.beta1, options.beta2})
                                                            .eps(options.eps)
                                                            .weight_decay(decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed, with_decay(options.weight_decay));
  groups.emplace_back(spared, with_decay(0));
  torch_->optimizer = std::make_unique<torch::optim::AdamW>(groups, *with_decay(0));
}

PlainAdamW::~PlainAdamW() = default;

void PlainAdamW::Step(const std::map<std::string, at::Tensor>& gradients) {
  for (auto& [name, value] : torch_->values) value.mutable_grad() = gradients.at(name).clone();
  torch_->optimizer->step();
}

at::Tensor PlainAdamW::value(const std::string& name) const { return torch_->values.at(name).detach(); }
at::Tensor PlainAdamW::exp_avg(const std::string& name) const { return torch_->StateOf(name).exp_avg(); }
at::Tensor PlainAdamW::exp_avg_sq(const std::string& name) const { return torch_->StateOf(name).exp_avg_sq(); }

}  // namespace trireme
