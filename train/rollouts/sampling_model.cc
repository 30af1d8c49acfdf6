#include "train/rollouts/sampling_model.h"

#include "stages/sampler_check.h"

namespace trireme {

SamplingModel::SamplingModel(Session& policy) : policy_(policy) {
  if (!HasSamplingLayout(policy.config())) return;
  copy_ = policy.OpenUnder(UnderSamplingLayout(policy.config()));
  refit_ = std::make_unique<Refit>(policy, *copy_);
}

Session& SamplingModel::UpToDate() {
  if (!refit_) return policy_;
  refit_->Run();
  return *copy_;
}

}  // namespace trireme
