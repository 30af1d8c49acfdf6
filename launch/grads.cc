// `trireme grads`: one forward and backward pass over given rows under the given layout; writes every
// gradient, whole, under its Hugging Face name. The proof that a layout changes nothing.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/cli/command.h"
#include "core/comm/communicator_set.h"
#include "core/comm/job.h"
#include "core/device/device.h"
#include "core/tensor/dtype.h"
#include "launch/layout.h"
#include "models/families.h"
#include "parallel/layers/layer.h"
#include "parallel/layers/reduce_gradients.h"
#include "train/batches.h"
#include "train/load_weights.h"
#include "train/whole_gradients.h"

namespace trireme {
namespace {

// Forward and backward of every micro batch; the sum of their losses.
double RunBatches(const std::vector<std::unique_ptr<RunningLayer>>& layers,
                  const std::vector<MicroBatch>& batches) {
  double loss = 0;
  for (const MicroBatch& batch : batches) {
    at::Tensor x = at::empty({0}).set_requires_grad(true);
    for (const auto& layer : layers) x = layer->Forward(x, batch);
    torch::autograd::backward({x}, {at::ones_like(x)});
    loss += x.item<double>();
  }
  return loss;
}

void WriteGradients(const std::string& path, const std::map<std::string, at::Tensor>& gradients) {
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, gradient] : gradients) {
    tensors.push_back({name, DType::kFp32, gradient.sizes().vec(), gradient.data_ptr()});
  }
  WriteSafetensors(path, std::move(tensors));
}

// What grads computes under so far; the rest is refused, never ignored.
void RefuseUnsupported(DeviceChoice device, const ParallelSizes& sizes) {
  if (device == DEVICE_NPU || device == DEVICE_CUDA) {
    throw InputError("grads runs on device cpu only; set device to cpu or auto");
  }
  if (sizes.pipeline * sizes.context * sizes.expert * sizes.expert_tensor > 1) {
    throw InputError(
        "grads runs under parallel.tensor and data parallel only; set parallel.pipeline, context, expert "
        "and expert_tensor to 1");
  }
}

void Grads(const Arguments& arguments, Job& job) {
  const Config config = ConfigOf(arguments);
  const ParallelSizes sizes = SizesOf(config.parallel());
  RefuseUnsupported(config.device(), sizes);
  const Grids grids = MakeGrids(job.world(), sizes);
  const HfConfig model = HfConfig::Read(arguments.value("model"));
  const LayerGraph graph = BuildGraph(model);
  const std::vector<Row> rows = ReadRows(arguments.value("rows"), model.Size("vocab_size"));
  const HfDirectory directory(arguments.value("model"));
  RefuseExtraTensors(directory, graph);
  const bool sequence = config.parallel().sequence();
  Weights weights(graph, graph.layers, grids, {.size = sizes.tensor, .sequence = sequence}, at::kFloat);
  LoadWeights(directory, weights, job.rank());

  const Device device = Device::ForLocalRank(job.local_rank());
  CommOptions options = CommOptionsOf(config);
  options.host_memory = true;  // tensors are on the cpu
  CommunicatorSet groups(job, device, GroupsOf(config, grids), options);
  const TensorParallel tensor{groups.Get("tp"), sequence};
  std::vector<std::unique_ptr<RunningLayer>> layers;
  for (const Layer& layer : graph.layers) layers.push_back(MakeLayer(layer, weights, tensor));
  Communicator& data = groups.Get("dp-cp");
  const double local_loss =
      RunBatches(layers, MakeMicroBatches(rows, {.micro_batch = config.run().micro_batch(),
                                                 .data_rank = data.rank(),
                                                 .data_size = data.size(),
                                                 .multiple = sizes.tensor}));
  ReduceGradients(weights, data, tensor.group);
  const at::Tensor loss = at::tensor({local_loss}, at::kFloat);
  data.AllReduce(loss.data_ptr(), loss.data_ptr(), 1, DType::kFp32, ReduceOp::kSum).Wait();
  const auto gradients = GatherGradients(graph, weights, groups.Get("world"));
  if (job.rank() != 0) return;
  WriteGradients(arguments.value("out"), gradients);
  std::cout << JsonLine({{"loss", loss.item<double>()},
                         {"tokens", TrainedTokens(rows)},
                         {"grad_norm", GlobalNorm(gradients)}})
            << "\n";
}

}  // namespace

Command GradsCommand() {
  return {
      .name = "grads",
      .summary = "One forward and backward pass over given rows, in fp32; writes every gradient, whole.",
      .options =
          {{.name = "model", .value_name = "DIR", .help = "a Hugging Face model directory", .required = true},
           {.name = "rows",
            .value_name = "ROWS.jsonl",
            .help =
                "one {\"input_ids\": […], \"labels\": […]} a line; labels are not shifted, -100: not trained",
            .required = true},
           {.name = "out", .value_name = "FILE", .help = "the .safetensors file to write", .required = true}},
      .positionals = {{.name = kRunFile,
                       .help = "the run whose layout is used; by default all keys have their defaults",
                       .required = false}},
      .takes_config = true,
      .run = Grads};
}

}  // namespace trireme
