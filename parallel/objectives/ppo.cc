// The objective of PPO whose policy has a value head on its own layers: the policy loss of the logits, and
// ValueLossOptions::weight times ValueLoss of the head, of the same hidden states in one pass. Sums: those of the
// policy loss, of which `loss` is both together, `loss/policy_avg`, `loss/value_avg` and `val/clipfrac_avg`.
#include <ATen/ATen.h>

#include <memory>

#include "parallel/objectives/objectives.h"
#include "parallel/objectives/value_loss.h"

namespace trireme {
namespace {

constexpr char kPolicyLoss[] = "loss/policy_avg", kValueLoss[] = "loss/value_avg";

class PpoObjective : public Objective {
 public:
  explicit PpoObjective(const ObjectiveOptions& options)
      : policy_(MakeObjective("ppo_policy", options)),
        value_(options.value, kValueLoss),
        weight_(options.value.weight) {}

  std::vector<std::string> SumNames(int64_t mtp_depths) const override {
    std::vector<std::string> names = policy_->SumNames(mtp_depths);
    names.insert(names.end(), {kPolicyLoss, kValueLoss, kValueClips});
    return names;
  }

  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const override {
    const std::vector<at::Tensor> gradients = policy_->Run(head, pass);
    PassOutput& output = *pass.output;
    output.Add(kPolicyLoss, output.sums.at("loss"));
    output.Add("loss", value_.Add(head, ValueHeadOf(head), pass, gradients.at(0)) * weight_);
    return gradients;
  }

 private:
  const std::unique_ptr<Objective> policy_;
  const ValueLoss value_;
  const double weight_;
};

}  // namespace

std::unique_ptr<Objective> MakePpo(const ObjectiveOptions& options) { return std::make_unique<PpoObjective>(options); }

}  // namespace trireme
