// The gated delta rule and the convolution before it against the plain formula in fp64: in chunks and token by token,
// over documents of every length around a chunk's, with prefixes that several of them share, and onward from states.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ops/gated_delta/causal_conv.h"
#include "ops/gated_delta/gated_delta.h"
#include "tests/ops/compare.h"

namespace trireme {
namespace {

constexpr int64_t kTokens = 300, kKeys = 2, kValues = 4, kKeyDim = 12, kValueDim = 20, kTaps = 4;

// Documents, tokens of none between and after them, and two that go on from the first one's beginning, or all of it.
const std::vector<DeltaRun> kRuns = {{0, 64}, {64, 65}, {65, 194}, {200, 202}, {202, 220, 0, 40}, {220, 290, 0, 64}};

at::Tensor Unit(const at::Tensor& x) { return x * (x.square().sum(-1, true) + 1e-6).rsqrt(); }

// query, key, value, log_decay, beta.
Tensors PlainDelta(const Tensors& in, const Tensors& /*weights*/) {
  const at::Tensor query = Unit(in[0]).repeat_interleave(kValues / kKeys, 1) / std::sqrt(static_cast<double>(kKeyDim));
  const at::Tensor key = Unit(in[1]).repeat_interleave(kValues / kKeys, 1);
  Tensors outputs(kTokens, at::zeros({kValues, kValueDim}, in[2].options()));
  for (const DeltaRun& run : kRuns) {
    at::Tensor state = at::zeros({kValues, kKeyDim, kValueDim}, in[2].options());
    for (int64_t place = 0; place < run.prefix() + run.size(); ++place) {
      const int64_t t = run.TokenAt(place);
      state = state * in[3][t].exp().view({-1, 1, 1});
      const at::Tensor change = (in[2][t] - at::einsum("hk,hkv->hv", {key[t], state})) * in[4][t].unsqueeze(-1);
      state = state + at::einsum("hk,hv->hkv", {key[t], change});
      if (place >= run.prefix()) outputs[static_cast<size_t>(t)] = at::einsum("hk,hkv->hv", {query[t], state});
    }
  }
  return {at::stack(outputs)};
}

Tensors RandomDelta(at::ScalarType type) {
  return {Random({kTokens, kKeys, kKeyDim}, type), Random({kTokens, kKeys, kKeyDim}, type),
          Random({kTokens, kValues, kValueDim}, type), -at::softplus(Random({kTokens, kValues})),
          Random({kTokens, kValues}).sigmoid()};
}

TEST(GatedDelta, IsThePlainRule) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    if (type == at::kHalf) return;
    const auto chunks = std::make_shared<const DeltaChunks>(CutIntoChunks(kRuns, kTokens));
    Compare({.inputs = RandomDelta(type),
             .weights = {},
             .op = [&](const Tensors& in) { return Tensors{GatedDelta({in[0], in[1], in[2], in[3], in[4]}, chunks)}; },
             .plain = PlainDelta},
            context);
  });
}

// A sequence in pieces, each from the states that the one before left.
TEST(GatedDelta, GoesOnFromStates) {
  at::manual_seed(2);
  const Tensors in = RandomDelta(at::kFloat);
  const DeltaInputs all{in[0], in[1], in[2], in[3], in[4]};
  const auto whole = std::make_shared<const DeltaChunks>(CutIntoChunks({{0, 200}, {200, kTokens}}, kTokens));
  const at::Tensor wanted = GatedDelta(all, whole), found = at::zeros_like(wanted);
  const at::Tensor states = at::zeros({2, kValues, kKeyDim, kValueDim});
  const std::vector<std::vector<DeltaRun>> pieces = {
      {{0, 1}, {200, 270}}, {{1, 66}, {270, 271}}, {{66, 200}, {271, kTokens}}};
  for (const std::vector<DeltaRun>& runs : pieces) {
    found.add_(GatedDeltaOnward(all, CutIntoChunks(runs, kTokens), states));
  }
  EXPECT_LT(RelativeError(found, wanted), 1e-6);
}

void ExpectPlainConvolution(const std::vector<DeltaRun>& runs, at::ScalarType type) {
  at::manual_seed(3);
  const auto places = std::make_shared<const ConvPlaces>(PlacesInRuns(runs, kTokens, kTaps));
  at::Tensor outside = at::ones({kTokens, 1});
  for (const DeltaRun& run : runs) outside.narrow(0, run.begin, run.size()).zero_();
  const at::Tensor inside = 1 - outside;
  Compare({.inputs = {Random({kTokens, 5}, type), Random({5, kTaps})},
           .weights = {},
           .op = [&](const Tensors& in) { return Tensors{CausalConv(in[0], in[1], places) * inside.to(type)}; },
           .plain =
               [&](const Tensors& in, const Tensors&) {
                 Tensors outputs(kTokens, at::zeros({5}, in[0].options()));
                 for (const DeltaRun& run : runs) {
                   for (int64_t i = 0; i < run.size(); ++i) {
                     at::Tensor sum = at::zeros({5}, in[0].options());
                     for (int64_t back = 0; back < kTaps && back <= run.prefix() + i; ++back) {
                       sum = sum + in[0][run.TokenAt(run.prefix() + i - back)] * in[1].select(1, kTaps - 1 - back);
                     }
                     outputs[static_cast<size_t>(run.begin + i)] = at::silu(sum);
                   }
                 }
                 return Tensors{at::stack(outputs)};
               }},
          c10::toString(type));
}

TEST(CausalConv, IsThePlainConvolution) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) ExpectPlainConvolution(kRuns, type);
}

TEST(CausalConv, OfDocumentsIsThePlainConvolutionByTheKernel) {
  const KernelsFirst guard;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const ChoiceRecord record;
    ExpectPlainConvolution({{0, 64}, {64, 65}, {65, 194}, {200, 202}, {202, 290}}, type);
    EXPECT_EQ(record.ChosenFor("causal_conv"), "ascendc");
  }
}

}  // namespace
}  // namespace trireme
