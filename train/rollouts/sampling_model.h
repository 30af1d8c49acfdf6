// SamplingModel: the policy's model as completions are sampled with it: itself, or under rl.sampling a second copy of
// its weights under another layout, which is brought up to date.
#pragma once

#include <memory>

#include "session/refit.h"
#include "session/session.h"

namespace trireme {

class SamplingModel {
 public:
  // `policy` outlives it. Collective.
  explicit SamplingModel(Session& policy);

  bool is_copy() const { return refit_ != nullptr; }
  // With the policy's weights as they are. Collective.
  Session& UpToDate();

 private:
  Session& policy_;
  std::unique_ptr<Session> copy_;
  std::unique_ptr<Refit> refit_;  // into it
};

}  // namespace trireme
