#include "ops/gated_delta/delta_pairs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "ops/gated_delta/ascendc.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"

namespace trireme {
namespace {

float* Data(const at::Tensor& tensor) { return tensor.mutable_data_ptr<float>(); }

ascendc::PairShape ShapeOfDeltaPairs(const PairInputs& inputs) {
  const auto size = inputs.decay.sizes();
  return {.matrices = static_cast<uint64_t>(size[0] * size[1] * size[2]),
          .size = static_cast<uint64_t>(size[3]),
          .group = static_cast<uint64_t>(size[2])};
}

at::Tensor EmptyMatrices(const PairInputs& inputs) {
  std::vector<int64_t> shape = inputs.decay.sizes().vec();
  shape.push_back(shape.back());
  return at::empty(shape, inputs.decay.options());
}

DeltaPairs KernelForwardOfDeltaPairs(const PairInputs& inputs) {
  DeltaPairs made{.attention = EmptyMatrices(inputs), .inverse = EmptyMatrices(inputs), .decays = {}};
  ascendc::DeltaPairsForward(PlaceOf(inputs.decay), Data(inputs.key_products), Data(inputs.query_products),
                             Data(inputs.decay), Data(inputs.beta), ShapeOfDeltaPairs(inputs), Data(made.attention),
                             Data(made.inverse));
  return made;
}

PairGradients KernelBackwardOfDeltaPairs(const PairInputs& inputs, const DeltaPairs&, const at::Tensor& attention,
                                         const at::Tensor& system) {
  const PairGradients made{.query_products = attention,
                           .key_products = system,
                           .decay = at::empty_like(inputs.decay),
                           .beta = at::empty_like(inputs.decay)};
  ascendc::DeltaPairsBackward(PlaceOf(inputs.decay), Data(inputs.key_products), Data(inputs.query_products),
                              Data(inputs.decay), Data(inputs.beta), ShapeOfDeltaPairs(inputs), Data(attention),
                              Data(system), Data(made.decay), Data(made.beta));
  return made;
}

DeltaPairs ReferenceForwardOfDeltaPairs(const PairInputs& inputs) {
  const int64_t size = inputs.decay.size(-1);
  const auto options = inputs.decay.options();
  const at::Tensor later = at::ones({size, size}, options.dtype(at::kBool)).triu(1);
  at::Tensor decays = inputs.decay.unsqueeze(-1) - inputs.decay.unsqueeze(-2);
  decays.masked_fill_(later, -std::numeric_limits<double>::infinity()).exp_();
  const at::Tensor system = inputs.key_products * decays * inputs.beta.unsqueeze(-1);
  return {.attention = inputs.query_products * decays,
          .inverse = at::linalg_solve_triangular(system, at::eye(size, options).expand_as(system), /*upper=*/false,
                                                 /*left=*/true, /*unitriangular=*/true),
          .decays = decays};
}

PairGradients ReferenceBackwardOfDeltaPairs(const PairInputs& inputs, const DeltaPairs& pairs,
                                            const at::Tensor& attention, const at::Tensor& system) {
  attention.mul_(pairs.decays);
  system.neg_().tril_(-1).mul_(pairs.decays);
  const at::Tensor beta = (system * inputs.key_products).sum(-1);
  system.mul_(inputs.beta.unsqueeze(-1));
  const at::Tensor mixed = attention * inputs.query_products + system * inputs.key_products;
  return {.query_products = attention, .key_products = system, .decay = mixed.sum(-1) - mixed.sum(-2), .beta = beta};
}

std::string WhyNotKernelOfDeltaPairs(const PairInputs& inputs) {
  if (inputs.decay.is_cpu() && !KernelsAreWanted()) return "ATen was measured faster on the cpu";
  for (const at::Tensor* tensor : {&inputs.key_products, &inputs.query_products, &inputs.decay, &inputs.beta}) {
    if (std::string why = WhyNoKernel(*tensor); !why.empty()) return why;
  }
  const int64_t size = inputs.decay.dim() == 0 ? 0 : inputs.decay.size(-1);
  if (size <= static_cast<int64_t>(ascendc::kMostChunkTokens)) return "";
  return Concat("chunks of ", size, " tokens; the kernel takes ", ascendc::kMostChunkTokens);
}

const ImplementationList<PairInputs, decltype(&ReferenceForwardOfDeltaPairs), decltype(&ReferenceBackwardOfDeltaPairs)>
    kDeltaPairs{"delta_pairs",
                {{"ascendc", WhyNotKernelOfDeltaPairs, KernelForwardOfDeltaPairs, KernelBackwardOfDeltaPairs},
                 {"aten", nullptr, ReferenceForwardOfDeltaPairs, ReferenceBackwardOfDeltaPairs}}};

}  // namespace

DeltaPairs PairsOf(const PairInputs& inputs) { return kDeltaPairs.Choose(inputs).forward(inputs); }

PairGradients PairsBackward(const PairInputs& inputs, const DeltaPairs& pairs, const at::Tensor& attention,
                            const at::Tensor& system) {
  return kDeltaPairs.Choose(inputs).backward(inputs, pairs, attention, system);
}

namespace {

// Chunks of 64 tokens of two value heads per key head.
std::vector<BenchCase> BenchPairs(const BenchSize& s) {
  constexpr int64_t kSize = 64, kGroup = 2, kDim = 128;
  const int64_t heads = std::max<int64_t>(s.columns / kDim / kGroup, 1), chunks = std::max<int64_t>(s.rows / kSize, 1);
  const at::Tensor keys = BenchInput({chunks, heads, 1, kSize, kDim}, at::kFloat) / 12;
  const PairInputs inputs{.key_products = at::matmul(keys, keys.transpose(-2, -1)),
                          .query_products = BenchInput({chunks, heads, 1, kSize, kSize}, at::kFloat),
                          .decay = -BenchInput({chunks, heads, kGroup, kSize}, at::kFloat).abs().cumsum(-1),
                          .beta = BenchInput({chunks, heads, kGroup, kSize}, at::kFloat).sigmoid()};
  const double bytes = static_cast<double>(inputs.key_products.nbytes());
  return {{.forward_bytes = (2 + 2 * kGroup) * bytes, .run = [=] {
             PairsOf(inputs);
             return BenchCase::Tensors{};
           }}};
}

}  // namespace

Operator operators::delta_pairs() {
  return {
      .name = kDeltaPairs.op(),
      .summary = "pairs of a chunk's tokens in gated_delta: decays, the inverse of the triangular system, gradients",
      .implementations = kDeltaPairs.names(),
      .report =
          [](const at::Tensor& like) {
            const at::Tensor wide = like.to(at::kFloat);
            return std::vector{kDeltaPairs.Report("[any]", {wide, wide, wide, wide})};
          },
      .bench = BenchPairs};
}

}  // namespace trireme
