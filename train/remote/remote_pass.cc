#include "train/remote/remote_pass.h"

#include <ATen/ATen.h>

#include <numeric>

#include "parallel/objectives/token_log_probs.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// Data come shifted already, with any targets, while a row's labels stand one position after the token that predicts them:
// one more token at the end, which nothing attends to, gives the last target a position.
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

RemotePass::RemotePass(Trainer& trainer, const std::vector<TrainRow>& rows) : trainer_(trainer), rows_(rows) {}

std::vector<Row> RemotePass::RowsWith(const TokenTable* weights) const {
  std::vector<Row> rows;
  for (size_t i = 0; i < rows_.size(); ++i) {
    rows.push_back(RowOfDatum(rows_[i]));
    rows.back().weights.assign(rows.back().labels.size(), 0.0F);
    for (size_t j = 0; weights != nullptr && j < (*weights)[i].size(); ++j) {
      rows.back().weights[j + 1] = static_cast<float>((*weights)[i][j]);
    }
  }
  return rows;
}

TokenTable RemotePass::LogProbs(bool adapters) const {
  Session& session = trainer_.session();
  const RowList list(RowsWith(nullptr));
  const std::vector<int64_t> all = AllRows(rows_.size());
  const TokenLogProbs objective(/*temperature=*/1);
  PassBatch batch(MakePassInputs(list, all, ShapeOf(session)), {.objective = &objective,
                                                                .differentiate = false,
                                                                .adapters = adapters,
                                                                .totals = TotalsOf(list, all),
                                                                .wants = {.log_probs = true}});
  session.RunForward(batch);
  return Collect(batch);
}

TokenTable RemotePass::Backward(const TokenTable& weights) const {
  const RowList list(RowsWith(&weights));
  const std::vector<int64_t> all = AllRows(rows_.size());
  PassOptions options = trainer_.OptionsOf(TotalsOf(list, all));
  options.wants.log_probs = true;
  PassBatch batch(MakePassInputs(list, all, ShapeOf(trainer_.session())), options);
  trainer_.Pass(batch);
  return Collect(batch);
}

// From the ranks with the head to all: exactly one rank contributes each target.
TokenTable RemotePass::Collect(const PassBatch& batch) const {
  Session& session = trainer_.session();
  std::vector<int64_t> starts = {0};
  for (const TrainRow& row : rows_) starts.push_back(starts.back() + std::ssize(row.targets));
  at::Tensor flat = at::zeros({starts.back()}, at::kFloat);
  for (int i = 0; i < batch.size() && session.Coordinate("tp") == 0; ++i) {
    const at::Tensor& found = batch.result().outputs[static_cast<size_t>(i)].log_probs;
    if (!found.defined()) continue;
    const at::Tensor values = found.to(at::kCPU).to(at::kFloat).contiguous(), labels = batch.input(i).labels.to(at::kCPU).contiguous();
    const int64_t* identity = batch.input(i).identities.data_ptr<int64_t>();
    for (int64_t j = 0; j < values.numel(); ++j) {
      if (labels.data_ptr<int64_t>()[j] == kNotTrained) continue;
      flat.data_ptr<float>()[starts[static_cast<size_t>(RowOf(identity[j]))] + PositionOf(identity[j])] = values.data_ptr<float>()[j];
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
