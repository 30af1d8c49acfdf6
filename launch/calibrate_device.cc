#include "launch/calibrate_device.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <set>
#include <thread>

#include "core/base/clock.h"
#include "core/tensor/dtype.h"
#include "core/tensor/matrix_rate.h"
#include "cost/run_bytes.h"
#include "cost/work.h"
#include "ops/attention/attention.h"
#include "ops/flat/adamw.h"
#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm.h"
#include "session/run_plan.h"

namespace trireme {
namespace {

constexpr size_t kMostProducts = 12;
constexpr double kSecondsPerCase = 0.12;
constexpr int kRounds = 3;  // in turns: the machine may be busy

struct PassSeconds {
  double forward = 0, backward = 0;
};

class DeviceBench {
 public:
  DeviceBench(const TensorDevice& device, at::ScalarType type, Job& job) : device_(device), type_(type), job_(job) {}

  // Small values: sums of many stay finite in all types.
  at::Tensor Random(at::IntArrayRef shape) const {
    return at::randn(shape, at::TensorOptions(at::kFloat).device(device_.torch())).mul_(0.02).to(type_);
  }
  at::Tensor Zeros(at::IntArrayRef shape, at::ScalarType type) const {
    return at::zeros(shape, at::TensorOptions(type).device(device_.torch()));
  }
  Weight RandomWeight(at::IntArrayRef shape) const {
    return {.name = "calibration", .value = Random(shape), .gradient = Zeros(shape, at::kFloat)};
  }

  double Seconds(const std::function<void()>& work) const {
    device_.Synchronize();
    const Clock::time_point start = Clock::now();
    work();
    device_.Synchronize();
    return SecondsSince(start);
  }

  // Medians; of a device's queue several calls at a time, so that the host's launches hide as they do in a step.
  PassSeconds Measure(const at::Tensor& leaf, const std::function<at::Tensor()>& run) const {
    std::vector<double> forward, backward;
    job_.Barrier();
    double spent = 0;
    for (int i = 0; i < 4 || (i < 40 && spent < kSecondsPerCase); ++i) {
      at::Tensor result;
      const double there = Seconds([&] { result = run(); });
      double back = 0;
      if (leaf.defined()) {
        const at::Tensor gradient = at::ones_like(result);
        at::Tensor input = leaf;
        input.mutable_grad().reset();
        back = Seconds([&] { torch::autograd::backward({result}, {gradient}); });
      }
      spent += there + back;
      if (i == 0) continue;  // warms up
      forward.push_back(there);
      backward.push_back(back);
    }
    return {MedianOf(forward), MedianOf(backward)};
  }

 private:
  const TensorDevice& device_;
  const at::ScalarType type_;
  Job& job_;
};

int64_t TokensOf(const Config& config) {
  return int64_t{config.run().micro_batch()} * config.data().max_length() / config.parallel().context();
}

using ProductSize = std::pair<int64_t, int64_t>;  // outputs, inputs

// Distinct sizes of the model's shards, as it is split here, whole, and split once more.
std::vector<ProductSize> ShardSizes(const Config& config, const LayerGraph& graph) {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  const TensorSplit here = SplitOf(config.parallel());
  for (const int tensor : {here.size, 1, 2 * here.size}) {
    TensorSplit split = here;
    split.size = tensor;
    std::vector<LayerWork> works;
    try {
      for (const Layer& layer : graph.layers) works.push_back(WorkOf(graph, layer, split));
    } catch (const Error&) {
      continue;  // does not split so far
    }
    for (const LayerWork& work : works) {
      for (const Product& product : work.products) {
        const std::pair size(product.outputs, product.inputs);
        if (product.rows == Product::Rows::kPatches) continue;
        if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
      }
    }
  }
  if (sizes.size() > kMostProducts) sizes.resize(kMostProducts);
  return sizes;
}

// As many as fit into the seconds of a case.
int64_t RowsWithin(int64_t rows, const ProductSize& size, double flops_per_second) {
  const auto [outputs, inputs] = size;
  while (rows > 64 && 6.0 * static_cast<double>(rows * outputs * inputs) / flops_per_second > kSecondsPerCase)
    rows /= 2;
  return rows;
}

// At the rows of a pass and at a quarter of them, so that the fit tells rows from columns.
std::vector<MeasuredProduct> MeasureProducts(const Config& config, const LayerGraph& graph, const DeviceBench& bench,
                                             double flops_per_second) {
  std::vector<MeasuredProduct> measured;
  for (const ProductSize& size : ShardSizes(config, graph)) {
    const int64_t rows = RowsWithin(TokensOf(config), size, flops_per_second);
    for (const int64_t m : {rows, std::max<int64_t>(rows / 4, 1)}) {
      measured.push_back(
          {.m = static_cast<double>(m), .n = static_cast<double>(size.first), .k = static_cast<double>(size.second)});
    }
  }
  std::vector<std::vector<double>> forward(measured.size()), backward(measured.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < measured.size(); ++i) {
      const auto rows = static_cast<int64_t>(measured[i].m), outputs = static_cast<int64_t>(measured[i].n),
                 inputs = static_cast<int64_t>(measured[i].k);
      const Weight weight = bench.RandomWeight({outputs, inputs});
      const at::Tensor x = bench.Random({rows, inputs}).requires_grad_(true);
      const PassSeconds seconds = bench.Measure(x, [&] { return Linear(x, weight); });
      forward[i].push_back(seconds.forward);
      backward[i].push_back(seconds.backward);
    }
  }
  for (size_t i = 0; i < measured.size(); ++i) {
    measured[i].forward = MedianOf(forward[i]);
    measured[i].backward = MedianOf(backward[i]);
  }
  return measured;
}

// Cores of a host share its memory and its clocks. While one rank works alone, the others sleep: a wait for it would
// keep their cores busy.
MeasuredCrowding MeasureCrowding(const Config& config, const LayerGraph& graph, const DeviceBench& bench,
                                 double flops_per_second, Job& job) {
  constexpr std::chrono::milliseconds kTurn{1000};
  constexpr size_t kSizes = 3;
  std::vector<ProductSize> sizes = ShardSizes(config, graph);
  sizes.resize(std::min(sizes.size(), kSizes));
  std::vector<std::function<void()>> works;
  for (const ProductSize& size : sizes) {
    const Weight weight = bench.RandomWeight({size.first, size.second});
    const at::Tensor x = bench.Random({RowsWithin(TokensOf(config), size, flops_per_second), size.second});
    x.requires_grad_(true);
    works.emplace_back([x, weight] { torch::autograd::backward({Linear(x, weight).sum()}, {}); });
  }
  const auto work = [&] {
    for (const std::function<void()>& one : works) one();
  };
  const auto turn = [&](bool works_now) {
    const Clock::time_point end = Clock::now() + kTurn;
    std::vector<double> seconds{0};
    while (works_now && Clock::now() < end - kTurn / 4) seconds.push_back(bench.Seconds(work));
    std::this_thread::sleep_until(end);
    return MedianOf(seconds);
  };
  std::vector<double> alone, together;
  for (int round = 0; round < kRounds; ++round) {
    job.Barrier();
    alone.push_back(job.Max(turn(job.rank() == 0)));
    job.Barrier();
    together.push_back(job.Max(turn(true)));
  }
  return {MedianOf(alone), MedianOf(together)};
}

const AttentionSpec* AttentionOf(const LayerGraph& graph) {
  for (const Layer& layer : graph.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder != nullptr && !decoder->attention.delta && !decoder->attention.latent) return &decoder->attention;
  }
  return nullptr;
}

// At the run's length and half of it, over this layout's heads.
std::vector<MeasuredAttention> MeasureAttention(const Config& config, const LayerGraph& graph,
                                                const DeviceBench& bench) {
  const AttentionSpec* spec = AttentionOf(graph);
  if (spec == nullptr) return {};
  const int64_t tensor = config.parallel().tensor(), heads = spec->heads / tensor,
                kv_heads = std::max<int64_t>(spec->kv_heads / tensor, 1), dim = spec->head_dim;
  std::vector<MeasuredAttention> measured;
  const int64_t whole = config.data().max_length() / config.parallel().context();
  for (const int64_t length : {whole, std::max<int64_t>(whole / 2, 1)}) {
    const int64_t rows = config.run().micro_batch();
    const at::Tensor query = bench.Random({rows, kv_heads, length, heads / kv_heads, dim}).requires_grad_(true);
    const at::Tensor key = bench.Random({rows, kv_heads, length, dim}).requires_grad_(true);
    const at::Tensor value = bench.Random({rows, kv_heads, length, dim}).requires_grad_(true);
    const PassSeconds seconds = bench.Measure(query, [&] { return CausalAttention({query, key, value}); });
    const double flops = 2.0 * static_cast<double>(rows * heads * dim) * static_cast<double>(length * length);
    measured.push_back({static_cast<double>(length), flops, seconds.forward, seconds.backward});
  }
  return measured;
}

// A block's: four times its elements forward, six times backward, as the layer graph counts them.
MeasuredTraffic MeasureNorm(const Config& config, const LayerGraph& graph, const DeviceBench& bench) {
  const int64_t tokens = TokensOf(config), hidden = HiddenOf(graph);
  const at::Tensor residual = bench.Random({tokens, hidden}), branch = bench.Random({tokens, hidden});
  residual.requires_grad_(true);
  branch.requires_grad_(true);
  const Weight weight = bench.RandomWeight({hidden});
  const PassSeconds seconds = bench.Measure(residual, [&] {
    const AddedNorm added = AddRmsNorm(residual, branch, weight, 1e-6);
    return added.normalised;
  });
  return {10.0 * static_cast<double>(branch.nbytes()), seconds.forward + seconds.backward};
}

MeasuredTraffic MeasureUpdate(const Config& config, const DeviceBench& bench) {
  constexpr int64_t kElements = int64_t{16} << 20;
  const AdamWTensors tensors{.master = bench.Zeros({kElements}, at::kFloat),
                             .exp_avg = bench.Zeros({kElements}, at::kFloat),
                             .exp_avg_sq = bench.Zeros({kElements}, at::kFloat),
                             .gradient = bench.Zeros({kElements}, at::kFloat),
                             .parameter = bench.Zeros({kElements}, ToTorch(DTypeOf(config.model())))};
  const PassSeconds seconds = bench.Measure({}, [&] {
    AdamW(tensors, {});
    return tensors.parameter;
  });
  // Gradient, masters and both moments, each read, the last three and the parameter written.
  return {(4 + 8 + 16 + ElementBytes(config)) * static_cast<double>(kElements), seconds.forward};
}

}  // namespace

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Measurements MeasureDevice(const Config& config, const LayerGraph& graph, const TensorDevice& device, Job& job) {
  const DType dtype = DTypeOf(config.model());
  const DeviceBench bench(device, ToTorch(dtype), job);
  Measurements measured;
  job.Barrier();
  measured.matrix_flops = MeasureMatrixRate(dtype, device);
  job.Barrier();
  measured.copy_gbs = MeasureCopyRate(device) / 1e9;
  measured.products = MeasureProducts(config, graph, bench, -job.Max(-measured.matrix_flops));
  if (device.is_cpu() && job.world() > 1) {
    measured.crowding = MeasureCrowding(config, graph, bench, -job.Max(-measured.matrix_flops), job);
  }
  measured.attention = MeasureAttention(config, graph, bench);
  measured.norm = MeasureNorm(config, graph, bench);
  measured.update = MeasureUpdate(config, bench);
  return measured;
}

}  // namespace trireme
