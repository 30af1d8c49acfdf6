#include "parallel/objectives/answer_objective.h"

#include <ATen/ATen.h>

#include "core/base/error.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

std::vector<double> ToVector(const at::Tensor& host) {
  const float* values = host.data_ptr<float>();
  return {values, values + host.numel()};
}

at::Tensor ToTensor(const std::vector<double>& values, at::Device device) {
  return at::tensor(values, at::kDouble).to(at::kFloat).to(device);
}

}  // namespace

at::Tensor AnswerObjective::Weigh(const LabelLogProbs& log_probs) const {
  PassContext& pass = log_probs.pass;
  const at::Tensor weights = log_probs.TokenWeights();
  const at::Tensor compared = log_probs.SumsBySequence(log_probs.values * weights);
  // Of an answer the weighted sum is its log-probability, in place of the plain one.
  if (pass.options.wants.sequence_log_probs) pass.output->sequence_log_probs = compared;
  const at::Tensor learnt = pass.input.weights.defined() ? log_probs.SumsBySequence() : compared;
  const bool reports = !SumNames(0).empty();
  const at::Tensor logits = reports ? log_probs.SumsBySequence(log_probs.MeanLogits()) : at::zeros_like(compared);
  const at::Tensor host = at::stack({compared, learnt, logits}).to(at::kCPU).contiguous();
  const Answers answers{ToVector(host[0]), ToVector(host[1]), ToVector(host[2]), pass.input, pass.totals};
  const AnswerGradient gradient = Differentiate(answers);
  // Each context rank has the same numbers: one speaks for all.
  if (log_probs.head.context.rank() == 0) {
    for (const auto& [name, value] : gradient.sums) {
      pass.output->Add(name, at::scalar_tensor(value, log_probs.values.options()));
    }
  }
  if (!pass.options.differentiate) return {};
  const at::Device device = log_probs.values.device();
  return log_probs.OfEachToken(ToTensor(gradient.log_probs, device)) * weights +
         log_probs.OfEachToken(ToTensor(gradient.learnt, device));
}

}  // namespace trireme
