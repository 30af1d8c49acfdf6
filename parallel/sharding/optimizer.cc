#include "parallel/sharding/optimizer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/device_copies.h"
#include "core/tensor/dtype.h"
#include "parallel/sharding/muon.h"
#include "parallel/sharding/optimizers.h"
#include "parallel/sharding/wide_master.h"

namespace trireme {
namespace {

constexpr char kTiedLayer[] = "embedding", kMaster[] = "master", kMuon[] = "muon";
constexpr char kLowRankB[] = ".lora_b.";  // in the names of parallel/graph/low_rank.h

// [shard] fp32; may be the master itself.
at::Tensor WideMasterOf(Bucket& bucket) {
  return bucket.has_split_master() ? bucket.JoinedMaster() : bucket.shard_master().to(at::kFloat);
}

UpdateTensors ElementsOf(const UpdateTensors& shard, const FlatRange& range) {
  const auto elements = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, range.begin, range.size()) : at::Tensor();
  };
  UpdateTensors own{.master = elements(shard.master),
                    .states = {},
                    .gradient = elements(shard.gradient),
                    .parameter = elements(shard.parameter)};
  for (const at::Tensor& state : shard.states) own.states.push_back(elements(state));
  return own;
}

}  // namespace

ShardedOptimizer::ShardedOptimizer(std::vector<Bucket*> buckets, OptimizerGroups groups, Job& job,
                                   OptimizerOptions options)
    : groups_(groups),
      job_(job),
      options_(options),
      state_names_(OptimizerStates(options.name, {.averaged = options.ema > 0, .initial = options.keep_initial})),
      update_(UpdateRuleOf(options.name)),
      tensor_sums_(TrainedOnly(buckets), {.name = "tp", .size = groups.tensor.size(), .group = groups.tensor}),
      expert_sums_(TrainedOnly(buckets), {.grid = GridKind::kExpert,
                                          .name = "etp",
                                          .size = groups.experts == nullptr ? 1 : groups.expert_tensor,
                                          .group = groups.experts == nullptr ? groups.tensor : *groups.experts}),
      norm_(Counted(TrainedOnly(buckets))) {
  for (Bucket* bucket : TrainedOnly(buckets)) {
    if (options_.offload) bucket->KeepMasterOnHost();
    trained_.push_back({.bucket = bucket, .runs = UpdateRuns(*bucket), .states = {}});
  }
}

std::vector<Bucket*> ShardedOptimizer::TrainedOnly(const std::vector<Bucket*>& buckets) {
  std::vector<Bucket*> trained;
  for (Bucket* bucket : buckets) {
    if (bucket->trained()) trained.push_back(bucket);
  }
  return trained;
}

// Runs cover the full shard: the gaps between parameters belong to the preceding run, and stay zero.
std::vector<ShardedOptimizer::UpdateRun> ShardedOptimizer::UpdateRuns(const Bucket& bucket) const {
  std::vector<UpdateRun> runs = {{.elements = {0, bucket.shard().size()}}};
  for (const FlatPart& part : bucket.parts()) {
    const UpdateRun run = RunOf(bucket, part);
    if (runs.back().Like(run)) continue;
    runs.back().elements.end = part.offset;
    runs.push_back(run);
  }
  return runs;
}

// From the part to the end of the shard.
ShardedOptimizer::UpdateRun ShardedOptimizer::RunOf(const Bucket& bucket, const FlatPart& part) const {
  UpdateRun run = RunOf(bucket.entries()[part.parameter]->parameter, bucket.layer());
  run.elements = {part.offset, bucket.shard().size()};
  return run;
}

ShardedOptimizer::UpdateRun ShardedOptimizer::RunOf(const Parameter& parameter, const std::string& layer) const {
  const ParameterDeclaration& declaration = parameter.declaration;
  const bool decayed =
      declaration.dims.size() > 1 && !declaration.name.ends_with(".bias");  // experts' biases are stacked
  const bool loraplus = !decayed || declaration.name.find(kLowRankB) != std::string::npos;
  return {.elements = {},
          .decayed = decayed,
          .lr_factor = options_.lr_factors.Of(parameter) * (loraplus ? options_.loraplus_lr_ratio : 1),
          .muon = options_.name == kMuon && TakesMuon(parameter, layer)};
}

std::vector<Bucket*> ShardedOptimizer::Counted(const std::vector<Bucket*>& buckets) const {
  std::vector<Bucket*> counted;
  for (Bucket* bucket : buckets) {
    if (!IsTiedCopy(*bucket)) counted.push_back(bucket);
  }
  return counted;
}

bool ShardedOptimizer::IsTied(const Bucket& bucket) const {
  return groups_.embedding != nullptr && bucket.layer() == kTiedLayer;
}

bool ShardedOptimizer::IsTiedCopy(const Bucket& bucket) const {
  return IsTied(bucket) && groups_.embedding->rank() > 0;
}

void ShardedOptimizer::BeginStep(double learning_rate) {
  if (!options_.in_backward) return;
  TRIREME_CHECK(groups_.world.size() == 1 && options_.clip == 0) << "updates in the backward pass";
  MakeStates();
  numbers_ = NumbersAt(learning_rate);
  for (Trained& trained : trained_) {
    trained.bucket->WhenReduced([this, &trained] { UpdateInPass(trained); });
  }
}

void ShardedOptimizer::UpdateInPass(Trained& trained) {
  trained.bucket->AwaitGradients();
  squares_.push_back(norm_.SumOfSquares(*trained.bucket, options_.device));
  updated_.push_back(trained.bucket);
  Step(trained, NumbersOf(/*gradient_scale=*/1));
  trained.bucket->DropGradients();
}

at::Tensor ShardedOptimizer::SquaresOfPass() {
  TRIREME_CHECK(updated_.size() == trained_.size())
      << updated_.size() << " of " << trained_.size() << " buckets were updated in the pass";
  return at::stack(squares_).sum(0);
}

void ShardedOptimizer::CompleteGradients() {
  for (Trained& trained : trained_) {
    trained.bucket->AwaitGradients();
    trained.bucket->StartReplicaSum();
  }
  for (Trained& trained : trained_) trained.bucket->AwaitReplicaSum();
  tensor_sums_.Run();
  expert_sums_.Run();
  for (Trained& trained : trained_) {
    if (IsTied(*trained.bucket)) AllReduce(trained.bucket->shard_gradient(), *groups_.embedding);
  }
}

GradientReport ShardedOptimizer::FinishGradients() {
  TRIREME_CHECK(!finished_) << "FinishGradients is called twice in step " << step_ + 1;
  if (updated_.empty()) CompleteGradients();
  // The only point of a step where the host waits.
  const at::Tensor mine = updated_.empty() ? norm_.SumOfSquares(options_.device) : SquaresOfPass();
  report_ = {.norm = NormOverRanks(mine, groups_.world), .finite = true, .source = ""};
  report_.finite = std::isfinite(report_.norm);
  if (!report_.finite) report_.source = FindSource();
  if (report_.finite && !kept_.empty()) AddKept();
  finished_ = true;
  return report_;
}

void ShardedOptimizer::AddKept() {
  for (size_t i = 0; i < trained_.size(); ++i) at::Tensor(trained_[i].bucket->shard_gradient()).add_(kept_[i]);
  kept_.clear();
  report_.norm = NormOverRanks(norm_.SumOfSquares(options_.device), groups_.world);
}

void ShardedOptimizer::KeepGradients() {
  TRIREME_CHECK(finished_ && report_.finite && updated_.empty()) << "gradients are kept without finite ones";
  for (const Trained& trained : trained_) kept_.push_back(trained.bucket->shard_gradient().clone());
  kept_report_ = report_;
  ClearGradients();
}

void ShardedOptimizer::DropPass() {
  TRIREME_CHECK(finished_) << "DropPass is called before FinishGradients";
  if (kept_.empty()) return ClearGradients();
  for (size_t i = 0; i < trained_.size(); ++i) at::Tensor(trained_[i].bucket->shard_gradient()).copy_(kept_[i]);
  kept_.clear();
  report_ = kept_report_;
}

std::string ShardedOptimizer::FindSource() {
  for (size_t i = 0; i < updated_.size(); ++i) {
    if (!std::isfinite(squares_[i].item<double>())) return updated_[i]->layer();
  }
  const std::vector<std::string> found = job_.GatherStrings(norm_.FirstNotFinite());
  for (size_t rank = 0; rank < found.size(); ++rank) {
    if (!found[rank].empty()) return Concat("rank ", rank, ": ", found[rank]);
  }
  return "all gradients are finite, but their norm overflows fp32";
}

void ShardedOptimizer::LendMemory(bool states) {
  TRIREME_CHECK(!finished_ && updated_.empty()) << "memory is lent within step " << step_ + 1;
  for (Trained& trained : trained_) trained.bucket->ReleaseGradients();
  lent_ = states && !options_.offload && !options_.device.is_cpu();
  if (lent_) MoveStates(at::kCPU);
}

void ShardedOptimizer::TakeMemoryBack() {
  if (std::exchange(lent_, false)) MoveStates(options_.device);
}

void ShardedOptimizer::MoveStates(at::Device device) {
  for (Trained& trained : trained_) {
    trained.bucket->MoveMaster(device);
    for (at::Tensor& state : trained.states) state = state.to(device);
    for (WholeTensor& tensor : trained.tensors) {
      for (auto& [name, values] : tensor.states) values = values.to(device);
    }
  }
}

void ShardedOptimizer::MakeStates() {
  TRIREME_CHECK(!lent_) << "the optimizer's memory is lent";
  for (Trained& trained : trained_) {
    const at::Tensor master = trained.bucket->shard_master();
    while (trained.states.size() < state_names_.size()) {
      const std::string& name = state_names_[trained.states.size()];
      if (name == kInitial) {
        trained.states.push_back(WideMasterOf(*trained.bucket).clone());
        continue;
      }
      const at::ScalarType type = name == kAveraged ? at::kFloat : options_.moments;
      trained.states.push_back(at::zeros({master.numel()}, master.options().dtype(type)));
    }
    if (trained.tensors.empty() && UpdatesWholeTensors(options_.name, moments_8bit())) MakeTensorStates(trained);
  }
}

void ShardedOptimizer::MakeTensorStates(Trained& trained) const {
  const auto options = trained.bucket->shard_master().options().dtype(at::kFloat);
  for (ShardTensor& tensor : ShardTensorsOf(*trained.bucket)) {
    const UpdateRun run = RunOf(*tensor.parameter, trained.bucket->layer());
    WholeTensor whole{.shard = std::move(tensor), .decayed = run.decayed, .lr_factor = run.lr_factor};
    const Shape& shape = whole.shard.file->shape;
    for (const auto& [name, of_state] : moments_8bit() ? Adam8BitStates(shape) : AdafactorStates(shape)) {
      whole.states[name] = at::zeros(of_state, options);
    }
    trained.tensors.push_back(std::move(whole));
  }
}

StepNumbers ShardedOptimizer::NumbersAt(double learning_rate) const {
  return {.learning_rate = learning_rate,
          .beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .eps = options_.eps,
          .weight_decay = options_.weight_decay,
          .clip = options_.clip};
}

UpdateNumbers ShardedOptimizer::NumbersOf(double gradient_scale) const {
  return {.lr = numbers_.learning_rate,
          .beta1 = numbers_.beta1,
          .beta2 = numbers_.beta2,
          .eps = numbers_.eps,
          .momentum = options_.momentum,
          .weight_decay = numbers_.weight_decay,
          .step = step_ + 1,
          .gradient_scale = gradient_scale};
}

void ShardedOptimizer::Update(double learning_rate) { Update(NumbersAt(learning_rate)); }

void ShardedOptimizer::Update(const StepNumbers& numbers) {
  TRIREME_CHECK(finished_ && std::isfinite(report_.norm)) << "an update without finished, finite gradients";
  MakeStates();
  if (updated_.empty()) {
    numbers_ = numbers;
    const UpdateNumbers scaled = NumbersOf(ClipScale(report_.norm, numbers.clip));
    for (Trained& trained : trained_) Step(trained, scaled);
  }
  ++step_;
  ClearGradients();
}

UpdateNumbers ShardedOptimizer::NumbersOf(const UpdateRun& run, UpdateNumbers numbers) const {
  if (!run.decayed && !numbers_.decay_all) numbers.weight_decay = 0;
  numbers.lr *= run.lr_factor;
  return numbers;
}

void ShardedOptimizer::Step(Trained& trained, const UpdateNumbers& numbers) {
  Bucket& bucket = *trained.bucket;
  const at::Tensor master = bucket.shard_master();
  const UpdateTensors shard{.master = master,
                            .states = trained.states,
                            .gradient = bucket.shard_gradient().to(master.device()),
                            .parameter = bucket.BeginValues()};
  if (!trained.tensors.empty()) {
    StepTensors(trained, shard, numbers);
  } else {
    for (const UpdateRun& run : trained.runs) {
      if (!run.muon) update_(ElementsOf(shard, run.elements), NumbersOf(run, numbers));
    }
    if (options_.name == kMuon) StepMuon(trained, shard, numbers);
  }
  if (options_.ema > 0) Average(shard, numbers);
  bucket.EndValues();
}

void ShardedOptimizer::StepTensors(const Trained& trained, const UpdateTensors& shard, const UpdateNumbers& numbers) {
  if (moments_8bit()) return StepAdam8Bit(trained.tensors, shard, numbers, *groups_.stage);
  StepAdafactor(trained.tensors, shard, numbers, options_.adafactor, *groups_.stage);
}

// The momentum is the first state. All ranks of the stage come here with the same buckets, also those whose shard has
// no element of a matrix.
void ShardedOptimizer::StepMuon(const Trained& trained, const UpdateTensors& shard, const UpdateNumbers& numbers) {
  const at::Tensor direction = at::zeros_like(shard.gradient);
  const double momentum = numbers.momentum;
  for (const UpdateRun& run : trained.runs) {
    if (!run.muon) continue;
    const UpdateTensors own = ElementsOf(shard, run.elements);
    const at::Tensor gradient = own.gradient * numbers.gradient_scale, kept = own.states[0].to(at::kFloat);
    kept.lerp_(gradient, 1 - momentum);
    if (!kept.is_same(own.states[0])) at::Tensor(own.states[0]).copy_(kept);
    direction.narrow(0, run.elements.begin, run.elements.size()).copy_(gradient.lerp(kept, momentum));  // Nesterov's
  }
  OrthogonaliseShards(*trained.bucket, direction, *groups_.stage);
  for (const UpdateRun& run : trained.runs) {
    if (!run.muon) continue;
    const UpdateTensors own = ElementsOf(shard, run.elements);
    const UpdateNumbers of_run = NumbersOf(run, numbers);
    const WideMaster master(own);
    const at::Tensor step = direction.narrow(0, run.elements.begin, run.elements.size());
    at::Tensor(master.values()).mul_(1 - of_run.lr * of_run.weight_decay).sub_(step, of_run.lr);
    master.Store();
  }
}

// As torch.optim.swa_utils averages: the first update's weights, then their exponential moving average.
void ShardedOptimizer::Average(const UpdateTensors& shard, const UpdateNumbers& numbers) const {
  const at::Tensor average = shard.states.back(), weights = WideMaster(shard).values();
  numbers.step == 1 ? average.copy_(weights) : average.lerp_(weights, 1 - options_.ema);
}

void ShardedOptimizer::SkipUpdate() {
  TRIREME_CHECK(finished_) << "SkipUpdate is called before FinishGradients";
  ClearGradients();
}

void ShardedOptimizer::ClearGradients() {
  for (Trained& trained : trained_) {
    trained.bucket->ZeroGradients();
    trained.bucket->WhenReduced(nullptr);
  }
  squares_.clear();
  updated_.clear();
  finished_ = false;
}

void ShardedOptimizer::AppendShards(Bucket& bucket, const std::string& state, const at::Tensor& shard,
                                    std::vector<Shard>& shards) {
  void* data = OnHost(shard, state == kMaster && bucket.has_split_master() ? &bucket : nullptr);
  for (const FlatPart& part : bucket.parts()) {
    shards.push_back(bucket.ShardOf(part, state, FromTorch(shard.scalar_type()), data));
    if (!IsTiedCopy(bucket)) continue;
    for (ShardBox& box : shards.back().boxes) ++box.replica;  // the first stage's copy is the owner
  }
}

void* ShardedOptimizer::OnHost(const at::Tensor& shard, Bucket* split) {
  if (shard.is_cpu() && split == nullptr) return shard.data_ptr();
  host_copies_.push_back({split == nullptr ? shard : at::Tensor(), shard.cpu(), split});
  return host_copies_.back().copy.data_ptr();
}

void ShardedOptimizer::ForEachShard(const std::function<void(const ShardState&)>& visit, bool changes) {
  MakeStates();
  for (const Trained& trained : trained_) {
    Bucket& bucket = *trained.bucket;
    const bool is_copy = IsTiedCopy(bucket);
    const at::Tensor master = bucket.has_split_master() ? bucket.JoinedMaster() : bucket.shard_master();
    visit({&bucket, kMaster, master, is_copy});
    if (changes && bucket.has_split_master()) bucket.TakeJoinedMaster(master);
    for (size_t i = 0; i < state_names_.size(); ++i) visit({&bucket, state_names_[i], trained.states[i], is_copy});
  }
}

void ShardedOptimizer::ForEachTensorState(const std::function<void(const TensorState&)>& visit) {
  MakeStates();
  for (const Trained& trained : trained_) {
    const bool saved = !trained.tensors.empty() && groups_.stage->rank() == 0 && !IsTiedCopy(*trained.bucket);
    for (const WholeTensor& tensor : trained.tensors) {
      for (const auto& [name, values] : tensor.states) {
        visit({.key = Concat(name, "/", tensor.shard.file->name), .values = values, .saved = saved});
      }
    }
  }
}

std::vector<Shard> ShardedOptimizer::States() {
  ForgetCopies();
  std::vector<Shard> shards;
  ForEachShard([&](const ShardState& state) { AppendShards(*state.bucket, state.state, state.shard, shards); });
  return shards;
}

void ShardedOptimizer::StatesLoaded(int64_t step) {
  step_ = step;
  for (const HostCopy& host : host_copies_) {
    if (host.split != nullptr) {
      host.split->TakeJoinedMaster(host.copy.to(options_.device));
    } else {
      host.of.copy_(host.copy);
    }
  }
  ForgetCopies();
  for (Trained& trained : trained_) {
    if (trained.bucket->has_split_master()) continue;  // its values are a part of it
    const at::Tensor values = trained.bucket->BeginValues();
    if (values.defined()) values.copy_(trained.bucket->shard_master());
    trained.bucket->EndValues();
  }
}

std::vector<Shard> ShardedOptimizer::Gradients() {
  TRIREME_CHECK(finished_) << "Gradients is called before FinishGradients";
  ForgetCopies();
  std::vector<Shard> shards;
  for (const Trained& trained : trained_) {
    AppendShards(*trained.bucket, "gradient", trained.bucket->shard_gradient(), shards);
  }
  return shards;
}

}  // namespace trireme
