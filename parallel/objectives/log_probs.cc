#include "parallel/objectives/log_probs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>

#include "core/base/error.h"
#include "parallel/objectives/gradient_chunks.h"
#include "parallel/objectives/value_loss.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

void GiveWanted(const LabelLogProbs& found) {
  const PassWants& wants = found.pass.options.wants;
  PassOutput& output = *found.pass.output;
  if (wants.log_probs) {
    output.log_probs = AtTheirPositions(found.values, found.tokens, found.head.hidden[0].size(0));
  }
  if (wants.entropies) {
    output.entropies = AtTheirPositions(found.entropies, found.tokens, found.head.hidden[0].size(0));
  }
  if (wants.scores) {
    const at::Tensor values = ValuesOf(found.tokens.inputs.to(at::kFloat), ValueHeadOf(found.head));
    output.scores = AtTheirPositions(values, found.tokens, found.head.hidden[0].size(0));
  }
  if (wants.sequence_log_probs) output.sequence_log_probs = found.SumsBySequence();
}

// The chunk's logits at a temperature, in place.
LogitChunk MakeChunk(const LogitChunks& chunks, int64_t i, double temperature) {
  LogitChunk chunk = chunks.Make(i);
  if (temperature != 1) chunk.logits.div_(temperature);
  return chunk;
}

// Of soft-capped logits, which must be computed for it.
at::Tensor MeanCappedLogits(const LabelLogProbs& found) {
  const LogitChunks chunks(found.tokens, found.head);
  at::Tensor means = at::empty_like(found.values);
  for (int64_t i = 0; i < chunks.count(); ++i) {
    const LogitChunk chunk = chunks.Make(i);
    const at::Tensor own = chunk.logits.narrow(1, 0, found.head.columns.count);
    means.narrow(0, chunk.begin, chunk.size()).copy_(own.sum(1, /*keepdim=*/false, at::kFloat));
  }
  means.div_(static_cast<double>(found.head.vocabulary));
  AllReduce(means, found.head.tensor);
  return means;
}

}  // namespace

at::Tensor LabelLogProbs::TokenWeights() const {
  const at::Tensor& weights = pass.input.weights;
  return weights.defined() ? weights.index_select(0, tokens.positions) : at::ones_like(values);
}

at::Tensor LabelLogProbs::SumsBySequence(const at::Tensor& numbers) const {
  at::Tensor sums = at::zeros({pass.input.sequences}, values.options());
  if (pass.input.sequences == 0) return sums;  // on every context rank
  sums.index_add_(0, pass.input.sequence.index_select(0, tokens.positions), numbers);
  AllReduce(sums, head.context);
  return sums;
}

at::Tensor LabelLogProbs::MeanLogits() const {
  if (head.soft_cap > 0) return MeanCappedLogits(*this);
  constexpr int64_t kBlock = 1024;  // tokens: their hidden states become fp32
  const at::Tensor& weight = head.weight.value;
  const at::Tensor mean = weight.narrow(0, 0, head.columns.count).sum(0, /*keepdim=*/false, at::kFloat) /
                          static_cast<double>(head.vocabulary);
  at::Tensor means = at::empty_like(values);
  for (int64_t begin = 0; begin < tokens.size(); begin += kBlock) {
    const int64_t size = std::min(kBlock, tokens.size() - begin);
    means.narrow(0, begin, size).copy_(at::mv(tokens.inputs.narrow(0, begin, size).to(at::kFloat), mean));
  }
  AllReduce(means, head.tensor);
  return means;
}

at::Tensor LabelLogProbs::OfEachToken(const at::Tensor& by_sequence) const {
  return by_sequence.index_select(0, pass.input.sequence.index_select(0, tokens.positions));
}

std::vector<at::Tensor> LogProbObjective::Run(const HeadStates& head, PassContext& pass) const {
  TRIREME_CHECK(pass.mtp_depths() == 0) << "log-probability objectives do not support multi-token prediction";
  const bool differentiate = pass.options.differentiate;
  const at::Tensor& hidden = head.hidden.at(0);
  const TrainedTokens trained(hidden, pass.input);
  const LogitChunks chunks(trained, head, chunk_bytes_);
  const at::Tensor known = KnownWeights(trained, pass);
  const at::Tensor log_probs = at::empty({trained.size()}, hidden.options().dtype(at::kFloat));
  const at::Tensor log_sum_exp = at::empty_like(log_probs);
  const bool measures = wants_entropies() || pass.options.wants.entropies;
  const at::Tensor entropies = measures ? at::empty_like(log_probs) : at::Tensor();
  GradientChunks gradients(head, trained, differentiate);
  for (int64_t i = 0; i < chunks.count(); ++i) {
    const LogitChunk chunk = MakeChunk(chunks, i, temperature());
    const ChunkStatistics statistics = StatisticsOf(chunk, head);
    log_sum_exp.narrow(0, chunk.begin, chunk.size()).copy_(statistics.log_sum_exp);
    log_probs.narrow(0, chunk.begin, chunk.size()).copy_(statistics.picked - statistics.log_sum_exp);
    if (measures) {
      entropies.narrow(0, chunk.begin, chunk.size()).copy_(EntropiesOf(chunk, statistics.log_sum_exp, head));
    }
    if (differentiate && known.defined()) gradients.Add(chunk, known / temperature(), statistics.log_sum_exp);
  }
  const LabelLogProbs found{log_probs, trained, head, pass, known, entropies};
  GiveWanted(found);
  at::Tensor weights = Weigh(found);
  if (!differentiate) return {{}};
  if (temperature() != 1) weights = weights / temperature();
  const double bonus = EntropyWeight(pass) / temperature();
  for (int64_t i = chunks.count() - 1; i >= 0 && !known.defined(); --i) {
    const LogitChunk chunk = i == chunks.count() - 1 ? chunks.Again(i) : MakeChunk(chunks, i, temperature());
    const at::Tensor sums = log_sum_exp.narrow(0, chunk.begin, chunk.size());
    if (bonus == 0) {
      gradients.Add(chunk, weights, sums);
    } else {
      gradients.AddWithEntropy(chunk, weights, sums, entropies.narrow(0, chunk.begin, chunk.size()), bonus);
    }
  }
  return {at::zeros_like(hidden).index_copy_(0, trained.positions, gradients.hidden())};
}

std::vector<std::string> WeightedLogProbs::SumNames(int64_t /*mtp_depths*/) const { return {"loss"}; }

at::Tensor WeightedLogProbs::KnownWeights(const TrainedTokens& tokens, const PassContext& pass) const {
  const at::Tensor& weights = pass.input.weights;
  if (weights.defined()) return weights.index_select(0, tokens.positions).neg();
  return at::full({tokens.size()}, -pass.totals.per_trained(), tokens.inputs.options().dtype(at::kFloat));
}

at::Tensor WeightedLogProbs::Weigh(const LabelLogProbs& log_probs) const {
  log_probs.pass.output->Add("loss", (log_probs.known * log_probs.values).sum());
  return log_probs.known;
}

std::unique_ptr<Objective> MakeWeightedLogProbs(const ObjectiveOptions& /*options*/) {
  return std::make_unique<WeightedLogProbs>();
}

}  // namespace trireme
