#include "train/remote/remote_model.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>

#include "checkpoint/adapter_directory.h"
#include "checkpoint/safetensors_writer.h"
#include "core/base/error.h"
#include "core/io/atomic_file.h"
#include "ops/flat/gradient_norm.h"
#include "parallel/sharding/gradient_norm.h"
#include "parallel/sharding/update_rule.h"
#include "session/tuning.h"

namespace trireme {
namespace {

constexpr char kOptimizerFile[] = "optimizer.safetensors", kStepKey[] = "step";
constexpr char kFirst[] = "exp_avg/", kSecond[] = "exp_avg_sq/";

std::vector<TensorToWrite> ToWrite(const std::map<std::string, at::Tensor>& tensors) {
  std::vector<TensorToWrite> list;
  for (const auto& [name, tensor] : tensors)
    list.push_back({name, DType::kFp32, tensor.sizes().vec(), tensor.data_ptr()});
  return list;
}

// The session's plan with the model's rank and modules.
AdapterPlan PlanOf(const AdapterPlan& of_session, const TrainedAdapters& adapters) {
  AdapterPlan plan = of_session;
  std::erase_if(plan.modules, [&](const auto& module) {
    return AdapterShards::IsAttention(module.first) ? !adapters.attention : !adapters.mlp;
  });
  for (auto& [name, module] : plan.modules) module.rank = adapters.rank;  // alpha is the same for all ranks
  if (plan.modules.size() == of_session.modules.size()) return plan;
  plan.targets.clear();
  for (const auto& [name, module] : plan.modules) plan.targets.insert(name);
  return plan;
}

// Gather names them as the adapter's file does; states go by the model's own names.
std::map<std::string, at::Tensor> Renamed(const std::map<std::string, at::Tensor>& tensors, const std::string& prefix) {
  std::map<std::string, at::Tensor> renamed;
  for (const auto& [name, tensor] : tensors) renamed[prefix + name.substr(std::string(kAdapterPrefix).size())] = tensor;
  return renamed;
}

}  // namespace

RemoteModel::RemoteModel(const AdapterShards& layout, const TrainedAdapters& adapters, int64_t slot)
    : layout_(layout),
      adapters_(adapters),
      slot_(slot),
      factors_(layout.Factors(adapters, slot)),
      weights_(layout.Initial(adapters, slot)) {}

at::Tensor RemoteModel::Taken(const std::vector<at::Tensor>& shares) const {
  const at::Tensor taken = layout_.Zeros(slot_);
  for (const AdapterPiece& piece : layout_.pieces(slot_)) piece.In(taken).copy_(piece.InShard(shares[piece.bucket]));
  return taken;
}

bool RemoteModel::Finite(const std::vector<at::Tensor>& shares) const {
  return Taken(shares).isfinite().all().item<bool>();
}

// The session's B is the model's times a factor: by the chain rule the model's gradient is the session's times it.
void RemoteModel::AddGradients(const std::vector<at::Tensor>& shares) {
  if (!gradients_.defined()) gradients_ = layout_.Zeros(slot_);
  for (const AdapterPiece& piece : layout_.pieces(slot_)) {
    piece.In(gradients_).addcmul_(piece.InShard(shares[piece.bucket]), piece.In(factors_));
  }
}

// Each element counts on the rank that owns it.
double RemoteModel::Norm() const {
  std::vector<at::Tensor> owned;
  for (const AdapterPiece& piece : layout_.pieces(slot_)) {
    if (piece.owned) owned.push_back(gradients_.narrow(0, piece.first, Elements(piece.box.extent)));
  }
  Session& session = layout_.session();
  const at::Device device = session.tensors().torch();
  const at::TensorOptions options(device.is_privateuseone() ? at::kFloat : at::kDouble);  // torch_npu has no fp64
  return NormOverRanks(at::full({}, owned.empty() ? 0 : SumOfSquares(owned), options).to(device), session.world());
}

double RemoteModel::Step(const AdamNumbers& adam) {
  if (!gradients_.defined())
    throw InputError("optim_step: there are no gradients since the last one; send forward_backward first");
  const double norm = Norm();
  if (!std::isfinite(norm)) {
    gradients_.reset();
    throw InputError(
        "optim_step: the gradient's norm is not finite; the gradients were dropped, the weights are unchanged");
  }
  if (!first_.defined()) {
    first_ = layout_.Zeros(slot_);
    second_ = layout_.Zeros(slot_);
  }
  ++step_;
  UpdateRuleOf("adamw")({.master = weights_, .states = {first_, second_}, .gradient = gradients_, .parameter = {}},
                        {.lr = adam.learning_rate,
                         .beta1 = adam.beta1,
                         .beta2 = adam.beta2,
                         .eps = adam.eps,
                         .weight_decay = adam.weight_decay,
                         .step = step_,
                         .gradient_scale = ClipScale(norm, adam.grad_clip_norm)});
  if (adam.eps == 0) weights_.masked_fill_(factors_ == 0, 0);  // 0 / 0, where nothing is trained
  gradients_.reset();
  return norm;
}

void RemoteModel::Save(const std::filesystem::path& directory, bool optimizer) const {
  const Session& session = layout_.session();
  const std::map<std::string, at::Tensor> weights = layout_.Gather(adapters_, slot_, weights_);
  std::map<std::string, at::Tensor> states;
  if (optimizer && first_.defined()) {
    states = Renamed(layout_.Gather(adapters_, slot_, first_), kFirst);
    states.merge(Renamed(layout_.Gather(adapters_, slot_, second_), kSecond));
  }
  if (session.job().rank() != 0) return;
  WriteSafetensors(directory / kAdapterWeightsFile, ToWrite(weights));
  WriteAtomicFile(directory / kAdapterConfigFile,
                  AdapterConfigText(PlanOf(*session.graph().adapter, adapters_), session.config().model().path()));
  if (!optimizer) return;
  states[kStepKey] = at::full({1}, static_cast<double>(step_), at::kFloat);  // so that the file is never empty
  WriteSafetensors(directory / kOptimizerFile, ToWrite(states), {{"format", "pt"}, {kStepKey, std::to_string(step_)}});
}

RemoteModel::Loaded RemoteModel::Read(const std::filesystem::path& directory, bool optimizer) const {
  const AdapterDirectory files(directory, ExpertNamesOf(layout_.session().graph()));
  Loaded loaded{.weights = layout_.Read(adapters_, slot_, files)};
  if (optimizer) {
    const SafetensorsFile states(directory / kOptimizerFile);
    const auto found = states.metadata().find(kStepKey);
    loaded.step = found == states.metadata().end() ? 0 : std::stoll(found->second);
    if (loaded.step > 0) {
      loaded.first = layout_.Read(adapters_, slot_, states, kFirst);
      loaded.second = layout_.Read(adapters_, slot_, states, kSecond);
    }
  }
  return loaded;
}

void RemoteModel::Take(Loaded loaded) {
  weights_ = std::move(loaded.weights);
  first_ = std::move(loaded.first);
  second_ = std::move(loaded.second);
  step_ = loaded.step;
  gradients_.reset();
}

void RemoteModel::Park(const std::filesystem::path& file) {
  parked_ = true;
  const at::Tensor never_empty = at::zeros({1}, at::kFloat);
  std::map<std::string, at::Tensor> tensors = {{kStepKey, never_empty}};
  for (const auto& [name, tensor] : Numbers()) {
    if (tensor->defined() && tensor->numel() > 0) tensors[name] = *tensor;
  }
  std::filesystem::create_directories(file.parent_path());
  WriteSafetensors(file, ToWrite(tensors));
  for (const auto& [name, tensor] : Numbers()) {
    if (tensor->defined() && tensor->numel() > 0) *tensor = at::Tensor();
  }
  factors_.reset();
}

// What could not be written is still in memory.
void RemoteModel::Unpark(const std::filesystem::path& file) {
  if (!parked_) return;
  if (std::filesystem::exists(file)) {
    const SafetensorsFile saved(file);
    for (const auto& [name, tensor] : Numbers()) {
      const auto found = saved.tensors().find(name);
      if (found == saved.tensors().end()) continue;
      const TensorView& view = found->second;
      *tensor =
          at::from_blob(const_cast<std::byte*>(view.bytes.data()), view.shape, at::TensorOptions(at::kFloat)).clone();
    }
    factors_ = layout_.Factors(adapters_, slot_);
  }
  parked_ = false;
  std::filesystem::remove(file);
}

std::vector<std::pair<std::string, at::Tensor*>> RemoteModel::Numbers() {
  return {{"weights", &weights_}, {"gradients", &gradients_}, {kFirst, &first_}, {kSecond, &second_}};
}

TrainedAdapters AdaptersIn(const std::filesystem::path& directory, const AdapterShards& layout) {
  const AdapterDirectory files(directory, ExpertNamesOf(layout.session().graph()));
  TrainedAdapters adapters{.attention = false, .mlp = false};
  for (const auto& [name, module] : files.Plan().modules) {
    (AdapterShards::IsAttention(name) ? adapters.attention : adapters.mlp) = true;
    adapters.rank = module.rank;
  }
  return adapters;
}

}  // namespace trireme
