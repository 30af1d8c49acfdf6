#include "train/step/sequence_scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "parallel/objectives/objectives.h"
#include "parallel/pass/pass_batch.h"
#include "parallel/tensor/collectives.h"
#include "train/step/batches.h"

namespace trireme {
namespace {

// Puts the scores of this rank's rows into their slots. Of the ranks that have the same rows, one does.
void AddScores(const PassBatch& batch, const Session& session, std::vector<float>& slots) {
  if (session.Coordinate("tp") != 0 || session.Coordinate("cp") != 0) return;
  for (int i = 0; i < batch.size(); ++i) {
    const at::Tensor& scores = batch.result().outputs[static_cast<size_t>(i)].sequence_scores;
    if (!scores.defined()) continue;
    const at::Tensor host = scores.to(at::kCPU).contiguous();
    const std::vector<int64_t>& samples = batch.input(i).samples;
    for (size_t document = 0; document < samples.size(); ++document) {
      slots[static_cast<size_t>(RowOf(samples[document]))] = host.data_ptr<float>()[document];
    }
  }
}

}  // namespace

std::vector<double> SequenceScoresOf(Session& session, const RowSource& rows) {
  const std::unique_ptr<Objective> objective = MakeObjective("rm");
  const int64_t global_batch = session.config().run().global_batch();
  std::vector<double> all;
  for (int64_t first = 0; first < rows.size(); first += global_batch) {
    std::vector<int64_t> chosen(static_cast<size_t>(std::min(global_batch, rows.size() - first)));
    std::iota(chosen.begin(), chosen.end(), first);
    PassBatch batch(MakePassInputs(rows, chosen, ShapeOf(session)),
                    {.objective = objective.get(), .differentiate = false, .wants = {.sequence_scores = true}});
    session.RunForward(batch);
    std::vector<float> slots(chosen.size(), 0.0F);
    AddScores(batch, session, slots);
    const at::Tensor sums = at::tensor(slots).to(session.tensors().torch());
    AllReduce(sums, session.world());
    const at::Tensor host = sums.to(at::kCPU);
    all.insert(all.end(), host.data_ptr<float>(), host.data_ptr<float>() + host.numel());
  }
  return all;
}

}  // namespace trireme
