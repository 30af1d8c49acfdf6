#include "ops/gated_delta/gated_delta.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "ops/gated_delta/chunk_scan.h"
#include "ops/gated_delta/recurrence.h"
#include "ops/operator.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SavedChunks : torch::CustomClassHolder {
  explicit SavedChunks(std::shared_ptr<const DeltaChunks> chunks) : chunks(std::move(chunks)) {}
  const std::shared_ptr<const DeltaChunks> chunks;
};

// Saves its inputs only: states and pairs are computed again in the backward pass, one layer's at a time.
struct GatedDeltaFunction : torch::autograd::Function<GatedDeltaFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const at::Tensor& log_decay, const at::Tensor& beta,
                            const c10::intrusive_ptr<SavedChunks>& saved) {
    context->save_for_backward({query, key, value, log_decay, beta});
    context->saved_data["chunks"] = c10::IValue::make_capsule(saved);
    const DeltaChunks& chunks = *saved->chunks;
    const DeltaPrepared prepared = PrepareDelta({query, key, value, log_decay, beta}, chunks);
    const DeltaScan scan = ScanDelta(prepared, chunks, EmptyDeltaStates(prepared, chunks), /*keep=*/false);
    return OutOfChunks(scan.output, chunks, chunks.writes).to(value.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list inputs = context->get_saved_variables();
    const auto capsule = context->saved_data["chunks"].toCapsule();
    const DeltaChunks& chunks = *static_cast<SavedChunks*>(capsule.get())->chunks;
    const DeltaPrepared prepared = PrepareDelta({inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]}, chunks);
    const DeltaScan scan = ScanDelta(prepared, chunks, EmptyDeltaStates(prepared, chunks), /*keep=*/true);
    const DeltaInputs found =
        BackwardDelta(prepared, scan, chunks, IntoChunks(gradients[0], chunks, chunks.writes, inputs[1].size(1)));
    const auto as = [&](const at::Tensor& gradient, size_t input) { return gradient.to(inputs[input].scalar_type()); };
    return {as(found.query, 0), as(found.key, 1), as(found.value, 2), found.log_decay, found.beta, at::Tensor()};
  }
};

at::Tensor Chunked(const DeltaInputs& inputs, const std::shared_ptr<const DeltaChunks>& chunks) {
  return GatedDeltaFunction::apply(inputs.query, inputs.key, inputs.value, inputs.log_decay, inputs.beta,
                                   c10::make_intrusive<SavedChunks>(chunks));
}

at::Tensor ReferenceOfGatedDelta(const DeltaInputs& inputs, const std::shared_ptr<const DeltaChunks>& chunks) {
  return RecurrentDelta(inputs, *chunks, {});
}

std::string WhyNotChunked(const at::Tensor& value) {
  return value.is_cpu() || value.is_cuda() || value.is_privateuseone() ? "" : "no triangular systems are solved there";
}

const ImplementationList<at::Tensor, decltype(&ReferenceOfGatedDelta)> kGatedDelta{
    "gated_delta", {{"chunks", WhyNotChunked, Chunked}, {"aten", nullptr, ReferenceOfGatedDelta}}};

}  // namespace

at::Tensor GatedDelta(const DeltaInputs& inputs, std::shared_ptr<const DeltaChunks> chunks) {
  if (chunks->size == 0) return inputs.value * 0;
  return kGatedDelta.Choose(inputs.value).forward(inputs, chunks);
}

at::Tensor GatedDeltaOnward(const DeltaInputs& inputs, const DeltaChunks& chunks, const at::Tensor& states) {
  const at::NoGradGuard no_graph;
  if (chunks.size == 0) return at::zeros_like(inputs.value);
  if (std::string_view(kGatedDelta.Choose(inputs.value).name) == "aten") return RecurrentDelta(inputs, chunks, states);
  const DeltaPrepared prepared = PrepareDelta(inputs, chunks);
  const at::Tensor order = at::tensor(chunks.order, at::kLong).to(states.device());
  const at::Tensor sorted = states.index_select(0, order).unflatten(1, {inputs.key.size(1), -1});
  const DeltaScan scan = ScanDelta(prepared, chunks, sorted, /*keep=*/false);
  states.index_copy_(0, order, sorted.flatten(1, 2));
  return OutOfChunks(scan.output, chunks, chunks.writes).to(inputs.value.scalar_type());
}

namespace {

// At most 16 heads of 128, one sequence of at most 512 tokens: the reference saves several states of 128 x 128 per head
// and token for its backward pass, 2 GiB for these.
std::vector<BenchCase> BenchGatedDelta(const BenchSize& s) {
  constexpr int64_t kDim = 128;
  const int64_t rows = std::min<int64_t>(s.rows, 512), heads = std::clamp<int64_t>(s.columns / kDim, 1, 16);
  const at::Tensor value = BenchLeaf({rows, heads, kDim}, s.type);
  const DeltaInputs inputs{.query = BenchInput({rows, heads, kDim}, s.type),
                           .key = BenchInput({rows, heads, kDim}, s.type),
                           .value = value,
                           .log_decay = -BenchInput({rows, heads}, at::kFloat).abs(),
                           .beta = BenchInput({rows, heads}, at::kFloat).sigmoid()};
  const auto chunks = std::make_shared<const DeltaChunks>(CutIntoChunks({{0, rows}}, rows));
  const double bytes = static_cast<double>(value.nbytes());
  return {{.forward_bytes = 4 * bytes,
           .backward_bytes = 8 * bytes,
           .input = value,
           .run = [=] { return BenchCase::Tensors{GatedDelta(inputs, chunks)}; },
           .shape = {rows, heads, kDim}}};
}

}  // namespace

Operator operators::gated_delta() {
  return {.name = kGatedDelta.op(),
          .summary = "gated delta rule of linear attention, whose state passes from chunk to chunk",
          .implementations = kGatedDelta.names(),
          .report = [](const at::Tensor& like) { return std::vector{kGatedDelta.Report("[any]", like)}; },
          .bench = BenchGatedDelta};
}

}  // namespace trireme
