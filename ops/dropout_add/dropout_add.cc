#include "ops/dropout_add/dropout_add.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "core/base/error.h"
#include "core/tensor/device_copies.h"
#include "ops/cuda/launch.h"
#include "ops/dropout_add/ascendc.h"
#include "ops/dropout_add/cpu.h"
#include "ops/element_types.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// residual may be undefined: zeros.
template <typename T>
void LoopsOfDropoutAdd(const at::Tensor& x, const at::Tensor& residual, const Dropout& dropout, const at::Tensor& y) {
  const cpu::DropoutRows rule{.keys = Data<uint32_t>(dropout.KeysOn(at::kCPU)),
                              .columns = x.size(1),
                              .first_column = static_cast<uint32_t>(dropout.first_column),
                              .rate = static_cast<float>(dropout.rate)};
  const T* before = residual.defined() ? Data<T>(residual) : nullptr;
  at::parallel_for(0, x.size(0), GrainOfRows(x.size(1)), [&](int64_t begin, int64_t end) {
    cpu::DropoutAdd(Data<T>(x), before, rule, {begin, end}, Data<T>(y));
  });
}

at::Tensor ByLoops(const at::Tensor& x, const at::Tensor& residual, const Dropout& dropout) {
  const at::Tensor y = at::empty_like(x);
  ByType(x, [&](auto type) { LoopsOfDropoutAdd<decltype(type)>(x, residual, dropout, y); });
  return y;
}

at::Tensor ByKernel(const at::Tensor& x, const at::Tensor& residual, const Dropout& dropout) {
  const at::Tensor y = at::empty_like(x);
  ascendc::DropoutAdd(PlaceOf(x), ElementOf(x), x.data_ptr(), residual.defined() ? residual.data_ptr() : nullptr,
                      {.keys = Data<int32_t>(dropout.KeysOn(x.device())),
                       .rows = static_cast<uint64_t>(x.size(0)),
                       .columns = static_cast<uint64_t>(x.size(1)),
                       .first_column = static_cast<uint32_t>(dropout.first_column),
                       .rate = static_cast<float>(dropout.rate)},
                      y.data_ptr());
  return y;
}

at::Tensor DropoutAddByCuda(const at::Tensor& x, const at::Tensor& residual, const Dropout& dropout) {
  const at::Tensor y = at::empty_like(x);
  const cuda::DropoutArgs args{.x = x.data_ptr(),
                               .residual = residual.defined() ? residual.data_ptr() : nullptr,
                               .y = y.data_ptr(),
                               .keys = Data<uint32_t>(dropout.KeysOn(x.device())),
                               .rows = x.size(0),
                               .columns = x.size(1),
                               .first_column = static_cast<uint32_t>(dropout.first_column),
                               .rate = static_cast<float>(dropout.rate)};
  CheckLaunch(CudaKernels().dropout_add(args, IsBf16(x), CudaStream()), "dropout_add");
  return y;
}

at::Tensor ByReference(const at::Tensor& x, const at::Tensor& residual, const Dropout& dropout) {
  const at::Tensor masked = x.to(at::kFloat) * DropoutMask(dropout, x.size(1)).to(x.device());
  return (residual.defined() ? masked + residual.to(at::kFloat) : masked).to(x.scalar_type());
}

// Backward the same mask goes over the gradient.
const ImplementationList<at::Tensor, decltype(&ByReference)> kDropoutAdd{"dropout_add",
                                                                         {{"cpu", WhyNoLoops, ByLoops},
                                                                          {"cuda", WhyNoCudaKernel, DropoutAddByCuda},
                                                                          {"ascendc", WhyNoKernel, ByKernel},
                                                                          {"aten", nullptr, ByReference}}};

at::Tensor Apply(const at::Tensor& given, const at::Tensor& given_residual, const Dropout& dropout) {
  TRIREME_CHECK(given.dim() == 2 && given.size(0) == dropout.rows.numel())
      << "input " << given.sizes() << " with " << dropout.rows.numel() << " row identities";
  const at::Tensor x = given.contiguous(),
                   residual = given_residual.defined() ? given_residual.contiguous() : given_residual;
  return kDropoutAdd.Choose(x).forward(x, residual, dropout);
}

struct SavedDropout : torch::CustomClassHolder {
  std::shared_ptr<const Dropout> dropout;
};

struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& residual,
                            const std::shared_ptr<const Dropout>& dropout) {
    auto saved = c10::make_intrusive<SavedDropout>();
    saved->dropout = dropout;
    context->saved_data["dropout"] = c10::IValue::make_capsule(saved);
    context->saved_data["adds"] = residual.has_value();
    return Apply(x, residual.value_or(at::Tensor()), *dropout);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder = context->saved_data["dropout"].toCapsule();
    const Dropout& dropout = *static_cast<SavedDropout*>(holder.get())->dropout;
    const bool adds = context->saved_data["adds"].toBool();
    return {Dropped(gradients[0], dropout), adds ? gradients[0] : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

const at::Tensor& Dropout::KeysOn(at::Device device) const {
  if (keys.defined() && keys.device().type() == device.type()) return keys;
  const at::Tensor made = at::empty({rows.numel(), 2}, at::kInt);
  const at::Tensor dense = rows.contiguous();
  for (int64_t row = 0; row < rows.numel(); ++row) {
    const uint64_t key = random.Bits(static_cast<uint64_t>(Data<int64_t>(dense)[row]));
    Data<uint32_t>(made)[2 * row] = static_cast<uint32_t>(key);
    Data<uint32_t>(made)[2 * row + 1] = static_cast<uint32_t>(key >> 32);
  }
  keys = Upload(made, device);
  return keys;
}

at::Tensor DropoutMask(const Dropout& dropout, int64_t columns) {
  const at::Tensor ones = at::ones({dropout.rows.numel(), columns}, at::kFloat);
  return ByLoops(ones, at::Tensor(), dropout);
}

at::Tensor Dropped(const at::Tensor& x, const Dropout& dropout) { return Apply(x, at::Tensor(), dropout); }

at::Tensor WithDropout(const at::Tensor& x, const std::shared_ptr<const Dropout>& dropout) {
  return DropoutFunction::apply(x, std::optional<at::Tensor>(), dropout);
}

at::Tensor DropoutAdd(const at::Tensor& residual, const at::Tensor& x, const std::shared_ptr<const Dropout>& dropout) {
  return DropoutFunction::apply(x, std::optional<at::Tensor>(residual), dropout);
}

namespace {

std::vector<BenchCase> BenchDropout(const BenchSize& s) {
  const at::Tensor residual = BenchInput({s.rows, s.columns}, s.type), x = BenchLeaf({s.rows, s.columns}, s.type);
  const auto dropout = std::make_shared<const Dropout>(
      Dropout{.rate = 0.1, .random = RandomStream(1, "bench"), .rows = at::arange(s.rows, at::kLong)});
  const double bytes = static_cast<double>(x.nbytes());
  return {{.forward_bytes = 3 * bytes, .backward_bytes = 2 * bytes, .input = x, .run = [=] {
             return BenchCase::Tensors{DropoutAdd(residual, x, dropout)};
           }}};
}

}  // namespace

Operator operators::dropout_add() {
  return {.name = kDropoutAdd.op(),
          .summary = "residual + dropout(x), or dropout(x) alone, with a mask derived from row and column",
          .implementations = kDropoutAdd.names(),
          .report = [](const at::Tensor& like) { return std::vector{kDropoutAdd.Report("[any, any]", like)}; },
          .bench = BenchDropout};
}

}  // namespace trireme
