#include "train/remote/remote_pass.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/rounding.h"
#include "parallel/objectives/token_log_probs.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

constexpr int64_t kPackTokens = 2048;

// Data come shifted already, with any targets, while a row's labels stand one position after the token that predicts
// them: one more token at the end, which nothing attends to, gives the last target a position.
Row RowOfDatum(const TrainRow& datum) {
  Row row{.input_ids = datum.tokens, .labels = {kNotTrained}};
  row.input_ids.push_back(datum.tokens.back());
  row.labels.insert(row.labels.end(), datum.targets.begin(), datum.targets.end());
  return row;
}

std::vector<int64_t> AllRows(size_t count) {
  std::vector<int64_t> all(count);
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

}  // namespace

RemotePass::RemotePass(Trainer& trainer, std::vector<SlotRow> rows, int64_t slots)
    : trainer_(trainer), rows_(std::move(rows)), slots_(slots), packs_(MakePacks()) {
  for (const Pack& pack : packs_) {
    std::vector<Position>& positions = positions_.emplace_back();
    for (size_t row = pack.first; row < pack.end; ++row) {
      const int64_t targets = std::ssize(rows_[row].row->targets);
      for (int64_t target = 0; target < targets; ++target) positions.push_back({row, target});
      positions.push_back({row, -1});
    }
  }
}

// As many tokens as make a product worth its weights' way from memory, and a micro batch for every rank and stage if
// there are enough rows.
std::vector<RemotePass::Pack> RemotePass::MakePacks() const {
  const Mesh& dense = trainer_.session().plan().grids.dense;
  int64_t tokens = 0;
  for (const SlotRow& row : rows_) tokens += std::ssize(row.row->tokens) + 1;
  const int64_t parts = int64_t{dense.Size("dp")} * dense.Size("pp");
  const int64_t most = std::min(kPackTokens, DivideUp(tokens, parts));
  std::vector<Pack> packs;
  int64_t in_pack = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const int64_t own = std::ssize(rows_[i].row->tokens) + 1;
    if (packs.empty() || in_pack + own > most) {
      packs.push_back({i, i});
      in_pack = 0;
    }
    packs.back().end = i + 1;
    in_pack += own;
  }
  return packs;
}

std::vector<Row> RemotePass::PackedRows(const TokenTable* weights) const {
  std::vector<Row> packed;
  for (const Pack& pack : packs_) {
    Row& all = packed.emplace_back();
    for (size_t i = pack.first; i < pack.end; ++i) {
      const Row row = RowOfDatum(*rows_[i].row);
      all.starts.push_back(std::ssize(all.input_ids));
      all.input_ids.insert(all.input_ids.end(), row.input_ids.begin(), row.input_ids.end());
      all.labels.insert(all.labels.end(), row.labels.begin(), row.labels.end());
      all.weights.resize(all.labels.size(), 0.0F);
      for (size_t j = 0; weights != nullptr && j < (*weights)[i].size(); ++j) {
        all.weights[static_cast<size_t>(all.starts.back()) + j + 1] = static_cast<float>((*weights)[i][j]);
      }
    }
  }
  return packed;
}

std::vector<PassInput> RemotePass::Inputs(const RowSource& list, bool slots) const {
  std::vector<PassInput> inputs = MakePassInputs(list, AllRows(packs_.size()), ShapeOf(trainer_.session()));
  for (PassInput& input : inputs) {
    // The token that RowOfDatum adds is none of the document's, by whose length some rotary embeddings turn.
    input.document_tokens = (input.document_tokens - 1).clamp_min(1);
    if (!slots || slots_ == 0) continue;
    input.adapter_slots = slots_;
    input.slot_of = at::full({input.identities.numel()}, -1, at::kLong);  // padding uses none
    const int64_t* identity = input.identities.data_ptr<int64_t>();
    for (int64_t i = 0; i < input.slot_of.numel(); ++i) {
      const auto pack = static_cast<size_t>(RowOf(identity[i])),
                 position = static_cast<size_t>(PositionOf(identity[i]));
      if (pack >= positions_.size() || position >= positions_[pack].size()) continue;
      input.slot_of.data_ptr<int64_t>()[i] = rows_[positions_[pack][position].row].slot;
    }
  }
  return inputs;
}

TokenTable RemotePass::LogProbs(bool adapters) const {
  const RowList list(PackedRows(nullptr));
  const TokenLogProbs objective(/*temperature=*/1);
  PassBatch batch(Inputs(list, adapters), {.objective = &objective,
                                           .differentiate = false,
                                           .adapters = adapters,
                                           .totals = TotalsOf(list, AllRows(packs_.size())),
                                           .wants = {.log_probs = true}});
  trainer_.session().RunForward(batch);
  return Collect(batch);
}

TokenTable RemotePass::Backward(const TokenTable& weights) const {
  const RowList list(PackedRows(&weights));
  PassOptions options = trainer_.OptionsOf(TotalsOf(list, AllRows(packs_.size())));
  options.wants.log_probs = true;
  PassBatch batch(Inputs(list, /*slots=*/true), options);
  trainer_.Pass(batch);
  return Collect(batch);
}

// From the ranks with the head to all: exactly one rank contributes each target.
TokenTable RemotePass::Collect(const PassBatch& batch) const {
  Session& session = trainer_.session();
  std::vector<int64_t> starts = {0};
  for (const SlotRow& row : rows_) starts.push_back(starts.back() + std::ssize(row.row->targets));
  at::Tensor flat = at::zeros({starts.back()}, at::kFloat);
  for (int i = 0; i < batch.size() && session.Coordinate("tp") == 0; ++i) {
    const at::Tensor& found = batch.result().outputs[static_cast<size_t>(i)].log_probs;
    if (!found.defined()) continue;
    const at::Tensor values = found.to(at::kCPU).to(at::kFloat).contiguous(),
                     labels = batch.input(i).labels.to(at::kCPU).contiguous();
    const int64_t* identity = batch.input(i).identities.data_ptr<int64_t>();
    for (int64_t j = 0; j < values.numel(); ++j) {
      if (labels.data_ptr<int64_t>()[j] == kNotTrained) continue;
      const Position& found_at =
          positions_[static_cast<size_t>(RowOf(identity[j]))][static_cast<size_t>(PositionOf(identity[j]))];
      flat.data_ptr<float>()[starts[found_at.row] + found_at.target] = values.data_ptr<float>()[j];
    }
  }
  flat = flat.to(session.tensors().torch());
  AllReduce(flat, session.world());
  flat = flat.to(at::kCPU);
  TokenTable table;
  for (size_t row = 0; row < rows_.size(); ++row) {
    const float* first = flat.data_ptr<float>() + starts[row];
    table.emplace_back(first, first + (starts[row + 1] - starts[row]));
  }
  return table;
}

}  // namespace trireme
