#include "ops/rotary/rotary.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "core/tensor/device_copies.h"
#include "ops/operator.h"
#include "ops/rotary/npu.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor NpuTurn(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  const auto whole = [&](const at::Tensor& half) {
    return at::cat({half, half}, -1).to(x.scalar_type()).unsqueeze(0).unsqueeze(2);  // [1, tokens, 1, head_dim]
  };
  return npu::Rotate(x.unsqueeze(0).contiguous(), whole(cosine), whole(sine)).squeeze(0);
}

at::Tensor ReferenceTurn(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor first = x.narrow(-1, 0, half).to(at::kFloat), second = x.narrow(-1, half, half).to(at::kFloat);
  const at::Tensor c = cosine.unsqueeze(1), s = sine.unsqueeze(1);  // [tokens, 1, head_dim / 2]
  return at::cat({first * c - second * s, second * c + first * s}, -1).to(x.scalar_type());
}

// The adjoint of a rotation is the inverse rotation.
const ImplementationList<at::Tensor, decltype(&ReferenceTurn)> kRotary{
    "rotary", {{"torch_npu", WhyNoVendor, NpuTurn}, {"aten", nullptr, ReferenceTurn}}};

struct RotateFunction : torch::autograd::Function<RotateFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cosine,
                            const at::Tensor& sine) {
    context->save_for_backward({cosine, sine});
    return kRotary.Choose(x).forward(x, cosine, sine);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto& chosen = kRotary.Choose(gradients[0]);
    return {chosen.forward(gradients[0], saved[0], saved[1].neg()), at::Tensor(), at::Tensor()};
  }
};

// On a device they are sent once and stay: a pass that is recorded may not send anything. A process has few: one
// per kind of layer.
at::Tensor StepsOn(const at::Device& device, const std::vector<double>& frequencies) {
  const auto sent = [&] { return Upload(at::tensor(frequencies, at::kDouble).to(at::kFloat), device); };
  if (device.is_cpu()) return sent();
  using Key = std::pair<c10::DeviceIndex, std::vector<double>>;
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<Key, at::Tensor>;  // never destroyed: the device may be gone by then
  const std::lock_guard lock(mutex);
  at::Tensor& steps = known[{device.index(), frequencies}];
  if (!steps.defined()) steps = sent();
  return steps;
}

}  // namespace

RotaryTable MakeRotaryTable(const at::Tensor& positions, const std::vector<double>& frequencies) {
  const at::Tensor steps = StepsOn(positions.device(), frequencies);
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(1) * steps.unsqueeze(0);
  return {angles.cos(), angles.sin()};
}

at::Tensor Rotate(const at::Tensor& x, const RotaryTable& table) {
  const int64_t rotated = 2 * table.cosine.size(-1), rest = x.size(-1) - rotated;
  if (rest == 0) return RotateFunction::apply(x, table.cosine, table.sine);
  return at::cat(
      {RotateFunction::apply(x.narrow(-1, 0, rotated), table.cosine, table.sine), x.narrow(-1, rotated, rest)}, -1);
}

namespace {

// Heads of 128.
std::vector<BenchCase> BenchRotary(const BenchSize& s) {
  constexpr int64_t kDim = 128;
  const at::Tensor x = BenchLeaf({s.rows, std::max<int64_t>(s.columns / kDim, 1), kDim}, s.type);
  std::vector<double> frequencies(kDim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = 1.0 / static_cast<double>(i + 1);
  const RotaryTable table = MakeRotaryTable(at::arange(s.rows, at::kLong), frequencies);
  const double bytes = static_cast<double>(x.nbytes());
  return {{.forward_bytes = 2 * bytes, .backward_bytes = 2 * bytes, .input = x, .run = [=] {
             return BenchCase::Tensors{Rotate(x, table)};
           }}};
}

}  // namespace

Operator operators::rotary() {
  return {.name = kRotary.op(),
          .summary = "rotary position embedding of heads, where qkv_norm_rope does not apply it",
          .implementations = kRotary.names(),
          .report = [](const at::Tensor& like) { return std::vector{kRotary.Report("[any, any]", like)}; },
          .bench = BenchRotary};
}

}  // namespace trireme
