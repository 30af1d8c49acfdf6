#include "train/methods/distillation/teacher.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "parallel/objectives/teacher_states.h"
#include "parallel/pass/pass_batch.h"
#include "parallel/tensor/rank_cargo.h"
#include "train/methods/distillation/teacher_moves.h"
#include "train/step/batches.h"

namespace trireme {
namespace {

// The row of the step of each trained token of a micro batch, and its position there.
std::vector<int64_t> TrainedIdentities(const PassInput& input) {
  const at::Tensor found = input.identities.index_select(0, input.trained.to(at::kCPU)).contiguous();
  return {found.data_ptr<int64_t>(), found.data_ptr<int64_t>() + found.numel()};
}

// Of the rows of this rank's micro batches that have the head: where the states of each begin in the outputs, which are
// whole.
std::map<int64_t, at::Tensor> StatesByRow(const std::vector<PassInput>& inputs,
                                          const std::vector<PassOutput>& outputs) {
  std::map<int64_t, at::Tensor> states;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!outputs[i].trained_hidden.defined()) continue;
    const std::vector<int64_t> identities = TrainedIdentities(inputs[i]);
    for (size_t begin = 0, end = 0; begin < identities.size(); begin = end) {
      const int64_t row = RowOf(identities[begin]);
      while (end < identities.size() && RowOf(identities[end]) == row) ++end;
      states[row] = outputs[i].trained_hidden.narrow(0, static_cast<int64_t>(begin), static_cast<int64_t>(end - begin));
    }
  }
  return states;
}

// Positions of a row whose labels are trained, as micro batches have them.
std::vector<int64_t> TrainedPositions(const Row& row) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i + 1 < std::ssize(row.labels); ++i) {
    const bool ends = std::ranges::find(row.starts, i + 1) != row.starts.end();  // its document
    if (row.labels[static_cast<size_t>(i) + 1] != kNotTrained && !ends) positions.push_back(i);
  }
  return positions;
}

// The states of a micro batch's trained tokens, of which a context-parallel rank has a part. `like`: of their width and
// type.
at::Tensor StatesIn(const PassInput& input, const RowSource& rows, const std::vector<at::Tensor>& states,
                    const at::Tensor& like) {
  std::vector<at::Tensor> parts = {at::empty({0, like.size(1)}, like.options())};
  std::vector<int64_t> chosen, positions;
  int64_t last = -1, begin = 0, end = 0;  // its states among the parts
  for (const int64_t identity : TrainedIdentities(input)) {
    if (const int64_t row = RowOf(identity); row != last) {
      positions = TrainedPositions(rows.Read(row));
      parts.push_back(states[static_cast<size_t>(row)]);
      begin = std::exchange(end, end + parts.back().size(0));
      last = row;
    }
    chosen.push_back(begin + (std::ranges::lower_bound(positions, PositionOf(identity)) - positions.begin()));
  }
  return at::cat(parts).index_select(0, at::tensor(chosen, at::kLong).to(like.device()));
}

at::ScalarType TypeOf(Session& model) {
  return model.model().buckets().front()->entries().front()->weight.value.scalar_type();
}

}  // namespace

Teacher::Teacher(Session& student, Reference& model)
    : student_(student),
      model_(model),
      elsewhere_(model.second()->layout.has_value()),
      head_leaves_(model.second()->offload || model.second()->shard ||
                   (student.config().parallel().zero() == 3 && !elsewhere_)) {}

Teacher::Outputs Teacher::Forward(Session& model, const std::vector<PassInput>& inputs) const {
  const TeacherStates objective(head_leaves_);
  PassBatch batch(inputs, {.objective = &objective, .differentiate = false});
  model.RunForward(batch);
  return batch.result().outputs;
}

void Teacher::Ask(const RowSource& rows, std::vector<PassInput>& inputs) {
  model_.Use([&](Session& model, bool /*adapters*/) {
    if (elsewhere_) return AskElsewhere(model, rows, inputs);
    const Outputs outputs = Forward(model, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const PassOutput& output = outputs[i];
      if (!output.trained_hidden.defined()) continue;
      inputs[i].facts.Edit<TeacherFacts>() = {
          .hidden = output.trained_hidden, .head_weight = output.head_weight, .soft_cap = output.soft_cap};
    }
  });
}

void Teacher::AskElsewhere(Session& model, const RowSource& rows, std::vector<PassInput>& inputs) {
  const std::vector<PassInput> theirs = MakePassInputs(rows, AllRows(rows), ShapeOf(model));
  const Outputs outputs = Forward(model, theirs);
  if (!has_head_) BringHead(model, outputs);
  has_head_ = true;
  const std::vector<at::Tensor> states = BringStates(model, rows, theirs, outputs);
  if (!head_weight_.defined()) return;
  const double soft_cap = std::get<HeadSpec>(model.graph().layers.back().spec).soft_cap;
  for (PassInput& input : inputs) {
    input.facts.Edit<TeacherFacts>() = {
        .hidden = StatesIn(input, rows, states, head_weight_), .head_weight = head_weight_, .soft_cap = soft_cap};
  }
}

std::vector<at::Tensor> Teacher::BringStates(Session& model, const RowSource& rows,
                                             const std::vector<PassInput>& theirs, const Outputs& outputs) const {
  const int rank = student_.job().rank();
  const std::map<int64_t, at::Tensor> held = StatesByRow(theirs, outputs);
  std::vector<at::Tensor> states(static_cast<size_t>(rows.size()));
  RankCargo cargo;
  for (const TeacherMove& move :
       StateMoves(model.plan(), student_.plan(), rows.size(), student_.config().run().micro_batch())) {
    if (rows.Trained(move.begin) == 0) continue;
    at::Tensor& state = states[static_cast<size_t>(move.begin)];
    if (move.source == rank && move.destination == rank) {
      state = held.at(move.begin);
    } else if (move.source == rank) {
      cargo.sent[move.destination].push_back(held.at(move.begin));
    } else if (move.destination == rank) {
      state = at::empty({rows.Trained(move.begin), head_weight_.size(1)}, head_weight_.options());
      cargo.received[move.source].push_back(state);
    }
  }
  Exchange(cargo, student_.world(), student_.tensors().torch());
  return states;
}

void Teacher::BringHead(Session& model, const Outputs& outputs) {
  const int rank = student_.job().rank();
  const int64_t vocabulary = VocabularyOf(model.graph());
  const at::Tensor held = outputs.empty() ? at::Tensor() : outputs.front().head_weight;
  const int64_t width = HiddenOf(model.graph());
  RankCargo cargo;
  for (const TeacherMove& move : HeadMoves(model.plan(), student_.plan(), vocabulary)) {
    const int64_t count = move.end - move.begin;
    at::Tensor source, target;
    if (move.source == rank) {
      source = held.narrow(0, move.begin - HeadRowsOf(model.plan(), rank, vocabulary).begin, count);
    }
    if (move.destination == rank) {
      const HeadRows mine = HeadRowsOf(student_.plan(), rank, vocabulary);
      if (!head_weight_.defined()) {
        head_weight_ =
            at::zeros({mine.padded, width}, at::TensorOptions(TypeOf(model)).device(student_.tensors().torch()));
      }
      target = head_weight_.narrow(0, move.begin - mine.begin, count);
    }
    if (source.defined() && target.defined()) {
      target.copy_(source);
    } else if (source.defined()) {
      cargo.sent[move.destination].push_back(source);
    } else if (target.defined()) {
      cargo.received[move.source].push_back(target);
    }
  }
  Exchange(cargo, student_.world(), student_.tensors().torch());
}

}  // namespace trireme
