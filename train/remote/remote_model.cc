#include "train/remote/remote_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "checkpoint/adapter_directory.h"
#include "checkpoint/safetensors_writer.h"
#include "core/base/error.h"
#include "core/io/atomic_file.h"
#include "session/tuning.h"

namespace trireme {
namespace {

constexpr char kOptimizerFile[] = "optimizer.safetensors", kStepKey[] = "step";
constexpr char kFirst[] = "exp_avg/", kSecond[] = "exp_avg_sq/";

std::vector<TensorToWrite> ToWrite(const std::map<std::string, at::Tensor>& tensors) {
  std::vector<TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) list.push_back({name, DType::kFp32, tensor.sizes().vec(), tensor.data_ptr()});
  return list;
}

// The session's plan with the model's rank and modules.
AdapterPlan PlanOf(const AdapterPlan& of_session, const TrainedPairs& pairs) {
  AdapterPlan plan = of_session;
  std::erase_if(plan.modules, [&](const auto& module) {
    return PairShares::IsAttention(module.first) ? !pairs.attention : !pairs.mlp;
  });
  for (auto& [name, module] : plan.modules) module.rank = pairs.rank;  // alpha is the same for all ranks
  if (plan.modules.size() == of_session.modules.size()) return plan;
  plan.targets.clear();
  for (const auto& [name, module] : plan.modules) plan.targets.insert(name);
  return plan;
}

// GatherGradients names them as the adapter's file does; states go by the model's own names.
std::map<std::string, at::Tensor> Renamed(const std::map<std::string, at::Tensor>& tensors, const std::string& prefix) {
  std::map<std::string, at::Tensor> renamed;
  for (const auto& [name, tensor] : tensors) renamed[prefix + name.substr(std::string(kAdapterPrefix).size())] = tensor;
  return renamed;
}

}  // namespace

RemoteModel::RemoteModel(const PairShares& layout, const TrainedPairs& pairs)
    : layout_(layout), pairs_(pairs), factors_(layout.Factors(pairs)), weights_(layout.Initial(pairs)) {}

Shares RemoteModel::SessionValues() const {
  Shares values;
  for (size_t i = 0; i < weights_.size(); ++i) values.push_back(weights_[i] * factors_[i]);
  return values;
}

// The session's B is the model's times a factor: by the chain rule the model's gradient is the session's times it.
void RemoteModel::AddGradients(const Shares& gradients) {
  if (gradients_.empty()) gradients_ = layout_.Zeros();
  for (size_t i = 0; i < gradients.size(); ++i) gradients_[i].addcmul_(gradients[i], factors_[i]);
}

// Each element counts on the rank that owns it; ranks add up in their order, so that all have the same sum.
double RemoteModel::Norm() const {
  double own = 0;
  layout_.ForEachPiece(gradients_, [&](const PairPiece& piece) {
    if (piece.owned) own += piece.view.to(at::kDouble).square().sum().item<double>();
  });
  char text[64];
  std::snprintf(text, sizeof(text), "%a", own);
  double all = 0;
  for (const std::string& of_rank : layout_.session().job().GatherStrings(text)) all += std::strtod(of_rank.c_str(), nullptr);
  return std::sqrt(all);
}

double RemoteModel::Step(const AdamNumbers& adam) {
  if (gradients_.empty()) throw InputError("optim_step: there are no gradients since the last one; send forward_backward first");
  const double norm = Norm();
  if (!std::isfinite(norm)) {
    gradients_.clear();
    throw InputError("optim_step: the gradient's norm is not finite; the gradients were dropped, the weights are unchanged");
  }
  if (first_.empty()) {
    first_ = layout_.Zeros();
    second_ = layout_.Zeros();
  }
  // As torch.nn.utils.clip_grad_norm_ does it.
  const double scale = adam.grad_clip_norm > 0 ? std::min(1.0, adam.grad_clip_norm / (norm + 1e-6)) : 1.0;
  ++step_;
  const double correction1 = 1 - std::pow(adam.beta1, static_cast<double>(step_));
  const double correction2 = 1 - std::pow(adam.beta2, static_cast<double>(step_));
  for (size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor gradient = scale == 1 ? gradients_[i] : gradients_[i] * scale;
    weights_[i].mul_(1 - adam.learning_rate * adam.weight_decay);
    first_[i].lerp_(gradient, 1 - adam.beta1);
    second_[i].mul_(adam.beta2).addcmul_(gradient, gradient, 1 - adam.beta2);
    const at::Tensor divisor = (second_[i].sqrt() / std::sqrt(correction2)).add_(adam.eps);
    // Where nothing is trained all three are zero: eps may be, too.
    weights_[i].addcdiv_(first_[i], divisor.masked_fill_(factors_[i] == 0, 1), -adam.learning_rate / correction1);
  }
  gradients_.clear();
  return norm;
}

void RemoteModel::Save(const std::filesystem::path& directory, bool optimizer) const {
  const Session& session = layout_.session();
  const std::map<std::string, at::Tensor> weights = layout_.Gather(pairs_, weights_);
  std::map<std::string, at::Tensor> states;
  if (optimizer && !first_.empty()) {
    states = Renamed(layout_.Gather(pairs_, first_), kFirst);
    states.merge(Renamed(layout_.Gather(pairs_, second_), kSecond));
  }
  if (session.job().rank() != 0) return;
  WriteSafetensors(directory / kAdapterWeightsFile, ToWrite(weights));
  WriteAtomicFile(directory / kAdapterConfigFile,
                  AdapterConfigText(PlanOf(*session.graph().adapter, pairs_), session.config().model().path()));
  if (!optimizer) return;
  states[kStepKey] = at::full({1}, static_cast<double>(step_), at::kFloat);  // so that the file is never empty
  WriteSafetensors(directory / kOptimizerFile, ToWrite(states), {{"format", "pt"}, {kStepKey, std::to_string(step_)}});
}

void RemoteModel::Load(const std::filesystem::path& directory, bool optimizer) {
  const AdapterDirectory files(directory, ExpertNamesOf(layout_.session().graph()));
  Shares weights = layout_.Read(pairs_, files), first, second;
  int64_t step = 0;
  if (optimizer) {
    const SafetensorsFile states(directory / kOptimizerFile);
    const auto found = states.metadata().find(kStepKey);
    step = found == states.metadata().end() ? 0 : std::stoll(found->second);
    if (step > 0) {
      first = layout_.Read(pairs_, states, kFirst);
      second = layout_.Read(pairs_, states, kSecond);
    }
  }
  weights_ = std::move(weights);
  first_ = std::move(first);
  second_ = std::move(second);
  step_ = step;
  gradients_.clear();
}

TrainedPairs PairsIn(const std::filesystem::path& directory, const PairShares& layout) {
  const AdapterDirectory files(directory, ExpertNamesOf(layout.session().graph()));
  TrainedPairs pairs{.attention = false, .mlp = false};
  for (const auto& [name, module] : files.Plan().modules) {
    (PairShares::IsAttention(name) ? pairs.attention : pairs.mlp) = true;
    pairs.rank = module.rank;
  }
  return pairs;
}

}  // namespace trireme
