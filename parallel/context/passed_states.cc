#include "parallel/context/passed_states.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "ops/gated_delta/chunk_scan.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor IndicesOn(const at::Tensor& like, const std::vector<int64_t>& indices) {
  return at::tensor(indices, at::kLong).to(like.device());
}

struct Passing : torch::CustomClassHolder {
  Passing(std::shared_ptr<const SegmentPlan> plan, const ContextParallel& parallel)
      : plan(std::move(plan)), group(parallel.group) {}
  const std::shared_ptr<const SegmentPlan> plan;
  Communicator& group;

  DeltaChunks Chunks(int64_t tokens) const {
    std::vector<DeltaRun> runs;
    for (const Segment& segment : plan->mine) runs.push_back({segment.begin, segment.end});
    return CutIntoChunks(runs, tokens);
  }
  // own: [slots of this rank, …]; of all ranks, rank by rank, `plan->most` slots each.
  at::Tensor GatherSlots(const at::Tensor& own) const {
    const at::Tensor padded = at::zeros({plan->most, own[0].numel()}, own.options());
    padded.narrow(0, 0, std::ssize(plan->mine)).copy_(own.narrow(0, 0, std::ssize(plan->mine)).flatten(1));
    std::vector<int64_t> shape = own.sizes().vec();
    shape[0] = plan->most * group.size();
    return AllGatherRows(padded, group).view(shape);
  }
  int64_t RowOf(const Segment& segment) const { return segment.rank * plan->most + segment.slot; }
};

const Passing& PassingOf(AutogradContext* context) {
  return *static_cast<const Passing*>(context->saved_data["passing"].toCapsule().get());
}

// By slot, at least one so that shapes are known on ranks without any: [slots, key_heads, group, key_dim, columns].
at::Tensor SlotStates(const DeltaInputs& inputs, const SegmentPlan& plan, int64_t columns) {
  const int64_t heads = inputs.key.size(1), group = inputs.value.size(1) / heads;
  return at::zeros({std::max<int64_t>(std::ssize(plan.mine), 1), heads, group, inputs.key.size(2), columns},
                   inputs.beta.options());
}

// What `by_run` has in the chunks' order of runs, by slot, and back.
at::Tensor BySlot(const at::Tensor& by_run, const DeltaChunks& chunks) {
  return at::empty_like(by_run).index_copy_(0, IndicesOn(by_run, chunks.order), by_run);
}
at::Tensor ByRun(const at::Tensor& by_slot, const DeltaChunks& chunks) {
  return by_slot.index_select(0, IndicesOn(by_slot, chunks.order));
}

// The states before this rank's segments, by slot. transitions: of all ranks' slots, M | B.
at::Tensor StatesBefore(const Passing& passing, const at::Tensor& transitions, at::Tensor states) {
  const int64_t dim = transitions.size(-2), values = transitions.size(-1) - dim;
  for (const std::vector<Segment>& chain : passing.plan->chains) {
    at::Tensor state;  // undefined: empty
    for (const Segment& segment : chain) {
      if (segment.rank == passing.group.rank() && state.defined()) states[segment.slot].copy_(state);
      const at::Tensor own = transitions[passing.RowOf(segment)];
      const at::Tensor added = own.narrow(-1, dim, values);
      state = state.defined() ? at::matmul(own.narrow(-1, 0, dim), state) + added : added;
    }
  }
  return states;
}

// Their gradients after this rank's segments, by slot. before: what the segments' own tokens add to the gradient of the
// state before them, of all ranks' slots; matrices: M of those.
at::Tensor GradientsAfter(const Passing& passing, const at::Tensor& matrices, const at::Tensor& before,
                          at::Tensor gradients) {
  for (const std::vector<Segment>& chain : passing.plan->chains) {
    at::Tensor gradient;
    for (auto segment = chain.rbegin(); segment != chain.rend(); ++segment) {
      if (segment->rank == passing.group.rank() && gradient.defined()) gradients[segment->slot].copy_(gradient);
      const int64_t row = passing.RowOf(*segment);
      gradient = gradient.defined() ? at::matmul(matrices[row].transpose(-2, -1), gradient) + before[row] : before[row];
    }
  }
  return gradients;
}

struct AcrossFunction : torch::autograd::Function<AcrossFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const at::Tensor& log_decay, const at::Tensor& beta,
                            const c10::intrusive_ptr<Passing>& passing) {
    const DeltaInputs inputs{query, key, value, log_decay, beta};
    const SegmentPlan& plan = *passing->plan;
    const DeltaChunks chunks = passing->Chunks(value.size(0));
    const int64_t dim = key.size(2), columns = value.size(2);
    at::Tensor transitions = SlotStates(inputs, plan, dim + columns);
    DeltaPrepared prepared;
    if (!plan.mine.empty()) {
      prepared = PrepareDelta(inputs, chunks);
      transitions = BySlot(TransitionsOf(prepared, chunks), chunks);
    }
    const at::Tensor all = passing->GatherSlots(transitions);
    const at::Tensor states = StatesBefore(*passing, all, SlotStates(inputs, plan, columns));
    context->save_for_backward({query, key, value, log_decay, beta, states, all.narrow(-1, 0, dim).contiguous()});
    context->saved_data["passing"] = c10::IValue::make_capsule(passing);
    if (plan.mine.empty()) return at::zeros_like(value);
    const DeltaScan scan = ScanDelta(prepared, chunks, ByRun(states, chunks), /*keep=*/false);
    return OutOfChunks(scan.output, chunks, chunks.writes).to(value.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const DeltaInputs inputs{saved[0], saved[1], saved[2], saved[3], saved[4]};
    const Passing& passing = PassingOf(context);
    const SegmentPlan& plan = *passing.plan;
    const DeltaChunks chunks = passing.Chunks(inputs.value.size(0));
    const at::Tensor empty = SlotStates(inputs, plan, inputs.value.size(2));
    at::Tensor before = empty, output;
    DeltaPrepared prepared;
    if (!plan.mine.empty()) {
      prepared = PrepareDelta(inputs, chunks);
      output = IntoChunks(gradients[0], chunks, chunks.writes, inputs.key.size(1));
      const at::Tensor by_run = EmptyDeltaStates(prepared, chunks);
      BackwardDeltaStates(prepared, chunks, output, by_run);
      before = BySlot(by_run, chunks);
    }
    const at::Tensor after = GradientsAfter(passing, saved[6], passing.GatherSlots(before), empty.clone());
    if (plan.mine.empty()) {
      variable_list zeros;
      for (int i = 0; i < 5; ++i) zeros.push_back(at::zeros_like(saved[i]));
      zeros.emplace_back();
      return zeros;
    }
    const DeltaScan scan = ScanDelta(prepared, chunks, ByRun(saved[5], chunks), /*keep=*/true);
    const DeltaInputs found = BackwardDelta(prepared, scan, chunks, output, ByRun(after, chunks));
    const auto as = [&](const at::Tensor& gradient, size_t input) { return gradient.to(saved[input].scalar_type()); };
    return {as(found.query, 0), as(found.key, 1), as(found.value, 2), found.log_decay, found.beta, at::Tensor()};
  }
};

struct BorderFunction : torch::autograd::Function<BorderFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const c10::intrusive_ptr<Passing>& passing) {
    const SegmentPlan& plan = *passing->plan;
    context->saved_data["passing"] = c10::IValue::make_capsule(passing);
    context->saved_data["tokens"] = x.size(0);
    const at::Tensor rows = at::zeros({plan.most_given, x.size(1)}, x.options());
    rows.narrow(0, 0, std::ssize(plan.given)).copy_(x.index_select(0, IndicesOn(x, plan.given)));
    return AllGatherRows(rows, passing->group).index_select(0, IndicesOn(x, plan.taken));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Passing& passing = PassingOf(context);
    const SegmentPlan& plan = *passing.plan;
    const at::Tensor& gradient = gradients[0];
    at::Tensor all = at::zeros({plan.most_given * passing.group.size(), gradient.size(1)}, gradient.options());
    all.index_copy_(0, IndicesOn(gradient, plan.taken), gradient);
    const at::Tensor mine = at::empty({plan.most_given, gradient.size(1)}, gradient.options());
    StartReduceScatter(all, mine, passing.group).Wait();
    at::Tensor to_x = at::zeros({context->saved_data["tokens"].toInt(), gradient.size(1)}, gradient.options());
    to_x.index_add_(0, IndicesOn(gradient, plan.given), mine.narrow(0, 0, std::ssize(plan.given)));
    return {to_x, at::Tensor()};
  }
};

}  // namespace

at::Tensor GatedDeltaAcross(const DeltaInputs& inputs, std::shared_ptr<const SegmentPlan> plan,
                            const ContextParallel& parallel) {
  if (plan->chains.empty()) return inputs.value * 0;
  return AcrossFunction::apply(inputs.query, inputs.key, inputs.value, inputs.log_decay, inputs.beta,
                               c10::make_intrusive<Passing>(std::move(plan), parallel));
}

at::Tensor BorderTokens(const at::Tensor& x, std::shared_ptr<const SegmentPlan> plan, const ContextParallel& parallel) {
  if (plan->most_given == 0) return x.narrow(0, 0, 0);
  return BorderFunction::apply(x, c10::make_intrusive<Passing>(std::move(plan), parallel));
}

}  // namespace trireme
