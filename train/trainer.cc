#include "train/trainer.h"

#include <ATen/Context.h>
#include <ATen/ops/zeros.h>

#include <numeric>

#include "checkpoint/hf_directory.h"
#include "core/base/process.h"
#include "core/device/cann_info.h"
#include "core/tensor/dtype.h"
#include "ops/switches.h"
#include "parallel/tensor/collectives.h"
#include "train/batches.h"
#include "train/load_weights.h"
#include "train/random_weights.h"

namespace trireme {
namespace {

Keep KeepOf(Recompute recompute) {
  switch (recompute) {
    case RECOMPUTE_NONE:
      return Keep::kAll;
    case RECOMPUTE_SELECTIVE:
      return Keep::kSelected;
    case RECOMPUTE_FULL:
      return Keep::kLayerInputs;
  }
  return Keep::kAll;
}

AdamWOptions AdamWOf(const Config& config, const TensorDevice& tensors) {
  const OptimizerConfig& optimizer = config.optimizer();
  return {.beta1 = optimizer.beta1(),
          .beta2 = optimizer.beta2(),
          .eps = optimizer.eps(),
          .weight_decay = optimizer.weight_decay(),
          .clip = optimizer.clip(),
          .offload = config.memory().offload_optimizer(),
          .device = tensors.torch()};
}

CommOptions CommOptionsFor(const TensorDevice& tensors, const Config& config, Trace* trace) {
  CommOptions options = CommOptionsOf(config);
  options.host_memory = tensors.is_cpu();
  options.compute = tensors.compute();
  options.trace = trace;
  return options;
}

TensorDevice TensorDeviceFor(const Config& config, Device& device) {
  if (ResolveDevice(config.device(), QueryCann().twin) == DEVICE_CPU) return TensorDevice::Cpu();
  device.LeaveSet();  // torch_npu's from now on
  return TensorDevice::OfNpu(device.index());
}

}  // namespace

Trainer::Trainer(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job, DType dtype,
                 Trace* trace)
    : graph_(graph),
      plan_(plan),
      job_(job),
      micro_batch_(config.run().micro_batch()),
      trace_(trace),
      device_(Device::ForLocalRank(job.local_rank())),
      tensors_(TensorDeviceFor(config, device_)),
      groups_(std::make_unique<CommunicatorSet>(job, device_, plan.groups,
                                                CommOptionsFor(tensors_, config, trace))) {
  KeepFreedMemory();
  TurnOperatorsOff({config.ops().off().begin(), config.ops().off().end()});
  at::globalContext().setDeterministicAlgorithms(config.run().deterministic(), /*warn_only=*/true);
  model_ = std::make_unique<Model>(graph, ModelLayout{plan_.grids, job.rank(), plan_.placement, plan_.stages},
                                   *groups_,
                                   ModelOptions{.type = ToTorch(dtype),
                                                .device = tensors_.torch(),
                                                .zero = config.parallel().zero(),
                                                .sequence = config.parallel().sequence(),
                                                .keep = KeepOf(config.memory().recompute()),
                                                .ulysses = plan_.ulysses});
  optimizer_ = std::make_unique<ShardedOptimizer>(
      model_->buckets(), OptimizerGroups{groups_->Get("tp"), groups_->Get("world"), model_->tied_embedding()},
      job, AdamWOf(config, tensors_));
}

void Trainer::LoadWeights(const std::string& directory) {
  const HfDirectory files(directory);
  RefuseExtraTensors(files, graph_);
  for (Bucket* bucket : model_->buckets()) {  // one at a time, so that under zero 3 only one is whole
    trireme::LoadWeights(files, bucket->entries(), job_.rank());
    bucket->SealValues();
  }
}

void Trainer::DrawWeights(uint64_t seed) {
  for (Bucket* bucket : model_->buckets()) {
    FillRandomWeights(bucket->entries(), job_.rank(), seed);
    bucket->SealValues();
  }
}

Executor& Trainer::ExecutorFor(int micro_batches) {
  std::unique_ptr<Executor>& executor = executors_[micro_batches];
  if (!executor) {
    executor = std::make_unique<Executor>(plan_.ScheduleFor(micro_batches), model_->chunks(),
                                          groups_->Get("pp"), trace_);
  }
  return *executor;
}

double Trainer::Pass(const std::vector<Row>& rows) {
  std::vector<int64_t> all(rows.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return Pass(RowList(rows), all);
}

double Trainer::Pass(const RowSource& rows, std::span<const int64_t> chosen) {
  const Mesh& dense = plan_.grids.dense;
  const std::vector<MicroBatch> batches =
      MakeMicroBatches(rows, chosen,
                       {.micro_batch = micro_batch_,
                        .data_rank = dense.Coordinate(job_.rank(), "dp"),
                        .data_size = dense.Size("dp"),
                        .multiple = plan_.row_multiple,
                        .device = tensors_.torch(),
                        .context = {.ring = dense.Size("cp") / plan_.ulysses,
                                    .ulysses = plan_.ulysses,
                                    .rank = dense.Coordinate(job_.rank(), "cp")}});
  model_->SetBatches(batches);
  ExecutorFor(static_cast<int>(batches.size())).Run();
  return SumLoss();
}

// The head's ranks have the loss, each tensor-parallel one the same: one of them speaks for its tokens.
double Trainer::SumLoss() {
  const at::Tensor mine = model_->loss();
  const bool speaks = mine.defined() && groups_->Get("tp").rank() == 0;
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(tensors_.torch());
  const at::Tensor loss =
      speaks ? mine.reshape({1}).to(at::kFloat, false, /*copy=*/true) : at::zeros({1}, options);
  StartAllReduce(loss, world()).WaitOnHost();
  return loss.item<double>();
}

double Trainer::pipeline_wait_seconds() const { return groups_->Get("pp").waited_seconds(); }

double Trainer::other_wait_seconds() const { return groups_->waited_seconds() - pipeline_wait_seconds(); }

}  // namespace trireme
