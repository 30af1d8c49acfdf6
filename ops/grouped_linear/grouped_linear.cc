#include "ops/grouped_linear/grouped_linear.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "core/base/error.h"
#include "ops/dequantise/dequantise.h"
#include "ops/grouped_linear/cuda.h"
#include "ops/grouped_linear/npu.h"
#include "ops/operator.h"
#include "ops/weight_gradients.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SavedGroups : torch::CustomClassHolder {
  const Weight* weight = nullptr;
  GroupEnds ends;
  std::function<at::Tensor()> again;
};

// Calls work(expert, first row, rows) for each expert, including one without rows.
template <typename Work>
void ForEachGroup(const std::vector<int64_t>& ends, const Work& work) {
  int64_t begin = 0;
  for (size_t expert = 0; expert < ends.size(); ++expert) {
    work(static_cast<int64_t>(expert), begin, ends[expert] - begin);
    begin = ends[expert];
  }
}

at::Tensor ReferenceMatMul(const at::Tensor& x, const at::Tensor& operands, const RowEnds& ends) {
  at::Tensor y = at::empty({x.size(0), operands.size(2)}, x.options());
  ForEachGroup(ends.host(), [&](int64_t expert, int64_t begin, int64_t rows) {
    if (rows == 0) return;
    at::Tensor part = y.narrow(0, begin, rows);
    at::mm_out(part, x.narrow(0, begin, rows), operands[expert]);
  });
  return y;
}

// The same over a packed stack, of which one expert is decoded at a time: x · Wᵀ, or the gradient of x, y · W. An
// expert without rows is not decoded, for which the host must know the rows: on a device it waits for the router's
// choice.
at::Tensor PackedMatMul(const at::Tensor& x, const Weight& weight, const RowEnds& ends, bool turned) {
  at::Tensor y;
  ForEachGroup(ends.host(), [&](int64_t expert, int64_t begin, int64_t rows) {
    if (rows == 0 && y.defined()) return;
    const at::Tensor matrix = turned ? MatrixOf(weight, expert).t() : MatrixOf(weight, expert);
    if (!y.defined()) y = at::empty({x.size(0), matrix.size(1)}, x.options());
    at::Tensor part = y.narrow(0, begin, rows);
    at::mm_out(part, x.narrow(0, begin, rows), matrix);
  });
  const int64_t last = ends.host().back();
  y.narrow(0, last, y.size(0) - last).zero_();  // rows of no expert
  return y;
}

at::Tensor NpuMatMul(const at::Tensor& x, const at::Tensor& operands, const RowEnds& ends) {
  return npu::GroupedMatMul(x.contiguous(), operands, ends.On(x.device()));
}

std::string WhyNotNpuOfGroupedLinear(const at::Tensor& x) {
  return Either(WhyNoVendor(x), x.size(0) == 0 ? "there are no rows" : "");
}

// Expert by expert, each by the list of weight_gradient.
void EachGradient(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x, const RowEnds& ends) {
  const bool stale = weight.TakeStale();
  ForEachGroup(ends.host(), [&](int64_t expert, int64_t begin, int64_t rows) {
    const Weight one{
        .name = weight.name, .value = weight.value[expert], .gradient = weight.gradient[expert], .stale = stale};
    if (rows == 0) {
      one.gradient_sum();  // zeroed if it was stale
    } else {
      AddWeightGradient(one, output_gradient.narrow(0, begin, rows), x.narrow(0, begin, rows));
    }
  });
}

// One call, for which the host need not know the rows; it takes memory for the gradients of all experts.
// Where the host knows them, one expert after the other takes less.
void NpuGradient(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x, const RowEnds& ends) {
  if (ends.on_host()) return EachGradient(weight, output_gradient, x, ends);
  const at::Tensor all = npu::GroupedTransposedMatMul(output_gradient, x, ends.On(x.device()));
  at::Tensor sum = weight.gradient;
  if (weight.TakeStale()) {
    sum.copy_(all);
  } else {
    sum.add_(all);
  }
}

at::Tensor CudaMatMul(const at::Tensor& x, const at::Tensor& operands, const RowEnds& ends) {
  return cuda::AreWide(operands) ? cuda::GroupedMatMul(x, operands, ends) : ReferenceMatMul(x, operands, ends);
}

void CudaGradientOfGroupedLinear(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x,
                                 const RowEnds& ends) {
  if (!cuda::AreWide(weight.value)) return EachGradient(weight, output_gradient, x, ends);
  const bool add = !weight.TakeStale();
  cuda::AddGroupedGradient(weight.gradient, output_gradient, x, ends, add);
}

// Forward: both the forward pass and the input's gradient. Backward: the weight's gradient.
const ImplementationList<at::Tensor, decltype(&ReferenceMatMul), decltype(&EachGradient)> kGroupedLinear{
    "grouped_linear",
    {{"cuda", cuda::WhyNotGrouped, CudaMatMul, CudaGradientOfGroupedLinear},
     {"torch_npu", WhyNotNpuOfGroupedLinear, NpuMatMul, NpuGradient},
     {"aten", nullptr, ReferenceMatMul, EachGradient}}};

struct GroupedLinearFunction : torch::autograd::Function<GroupedLinearFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LinearInput& input,
                            const Weight* weight, const GroupEnds& ends) {
    auto saved = c10::make_intrusive<SavedGroups>();
    saved->weight = weight;
    saved->ends = ends;
    saved->again = input.again;
    if (weight->trained() && !input.again) context->save_for_backward({x});
    context->saved_data["saved"] = c10::IValue::make_capsule(saved);
    if (weight->packed) return PackedMatMul(x, *weight, *ends, /*turned=*/true);
    return GroupedMatMul(x, weight->value.transpose(1, 2), *ends);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor output_gradient = gradients[0].contiguous();
    const variable_list saved_tensors = context->get_saved_variables();
    const auto holder = context->saved_data["saved"].toCapsule();
    auto* saved = static_cast<SavedGroups*>(holder.get());
    const Weight* weight = saved->weight;
    const at::Tensor x = saved_tensors.empty() ? at::Tensor() : saved_tensors[0];
    const at::Tensor input_gradient = weight->packed
                                          ? PackedMatMul(output_gradient, *weight, *saved->ends, /*turned=*/false)
                                          : GroupedMatMul(output_gradient, weight->value, *saved->ends);
    WeightGradients::Add([weight, output_gradient, x, ends = saved->ends, again = std::move(saved->again)] {
      if (weight->trained()) AddGroupedGradient(*weight, output_gradient, again ? again() : x, *ends);
    });
    return {input_gradient, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor GroupedMatMul(const at::Tensor& x, const at::Tensor& operands, const RowEnds& ends) {
  return kGroupedLinear.Choose(x).forward(x, operands, ends);
}

void AddGroupedGradient(const Weight& weight, const at::Tensor& output_gradient, const at::Tensor& x,
                        const RowEnds& ends) {
  if (weight.trained()) kGroupedLinear.Choose(x).backward(weight, output_gradient, x, ends);
}

at::Tensor GroupedLinear(const LinearInput& x, const Weight& weight, const GroupEnds& ends) {
  TRIREME_CHECK(weight.packed || ends->experts() == weight.value.size(0))
      << ends->experts() << " groups do not match " << weight.name;
  TRIREME_CHECK(!ends->on_host() || (ends->experts() == 0 ? 0 : ends->host().back()) == x.value.size(0))
      << x.value.size(0) << " rows do not match the groups of " << weight.name;
  return GroupedLinearFunction::apply(x.value, x, &weight, ends);
}

namespace {

// Eight experts with the same number of rows.
std::vector<BenchCase> BenchGroupedLinear(const BenchSize& s) {
  constexpr int64_t kExperts = 8;
  const int64_t width = std::min<int64_t>(s.columns, 1024);
  const auto weight = BenchWeight({kExperts, width, width}, s.type);
  std::vector<int64_t> ends;
  for (int64_t expert = 1; expert <= kExperts; ++expert) ends.push_back(s.rows * expert / kExperts);
  const auto groups = std::make_shared<const RowEnds>(ends);
  const at::Tensor x = BenchLeaf({s.rows, width}, s.type);
  const double bytes = static_cast<double>(2 * x.nbytes() + weight->value.nbytes());
  return {{.forward_bytes = bytes,
           .backward_bytes = 2 * bytes,
           .input = x,
           .run = [=] { return BenchCase::Tensors{GroupedLinear(x, *weight, groups)}; },
           .shape = {s.rows, width, kExperts}}};
}

}  // namespace

Operator operators::grouped_linear() {
  return {.name = kGroupedLinear.op(),
          .summary = "x · Wᵀ with one W per expert (grouped GEMM)",
          .implementations = kGroupedLinear.names(),
          .report =
              [](const at::Tensor& like) {
                return std::vector{kGroupedLinear.Report("[any, any]", like.new_zeros({1, 8})),
                                   kGroupedLinear.Report("[0, any]", like)};
              },
          .bench = BenchGroupedLinear};
}

}  // namespace trireme
