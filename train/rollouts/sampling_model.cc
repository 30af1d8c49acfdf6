#include "train/rollouts/sampling_model.h"

#include <optional>

#include "stages/other_models.h"

namespace trireme {

SamplingModel::SamplingModel(Session& policy) : policy_(policy) {
  const std::optional<OtherModel> sampler = OtherModelOf(policy.config(), ModelRole::kSampler);
  if (!sampler) return;
  copy_ = policy.OpenOther(*sampler);
  refit_ = std::make_unique<Refit>(policy, *copy_);
}

Session& SamplingModel::UpToDate() {
  if (!refit_) return policy_;
  refit_->Run();
  return *copy_;
}

}  // namespace trireme
