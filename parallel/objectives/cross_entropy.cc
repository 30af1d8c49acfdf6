#include "parallel/objectives/cross_entropy.h"

#include <ATen/ATen.h>

#include <limits>
#include <memory>

#include "core/base/error.h"
#include "ops/linear/linear.h"
#include "parallel/objectives/gradient_chunks.h"
#include "parallel/objectives/vocabulary.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

constexpr char kLoss[] = "loss";
constexpr char kCorrect[] = "correct";

// How many tokens have their label's logit as the first of the largest ones (argmax).
at::Tensor CountCorrect(const LogitChunk& chunk, const at::Tensor& largest, const HeadStates& head) {
  constexpr double kNone = -std::numeric_limits<float>::infinity();
  // Token ids, negative so that the largest is the first; fp32 counts that far.
  at::Tensor first = at::full_like(largest, kNone);
  if (head.columns.count > 0) {
    const at::Tensor columns = chunk.logits.narrow(1, 0, head.columns.count);
    const at::Tensor index = columns.argmax(1, /*keepdim=*/true);
    const at::Tensor value = columns.gather(1, index).squeeze(1).to(at::kFloat);
    first = (index.squeeze(1) + head.columns.first).to(at::kFloat).neg_();
    first.masked_fill_(largest.gt(value), kNone);
  }
  AllReduce(first, head.tensor, ReduceOp::kMax);
  return first.neg().eq(chunk.labels.to(at::kFloat)).sum().to(at::kFloat);
}

// What each trained token counts; undefined: the same, and none is wanted.
at::Tensor WeightsOf(const TrainedTokens& trained, const PassInput& input, bool wanted) {
  if (input.weights.defined()) return input.weights.index_select(0, trained.positions);
  return wanted ? at::ones({trained.size()}, trained.inputs.options().dtype(at::kFloat)) : at::Tensor();
}

at::Tensor RoomFor(const TrainedTokens& trained, bool wanted) {
  return wanted ? at::empty_like(trained.inputs) : at::Tensor();
}

}  // namespace

std::string MtpLossName(int64_t depth) { return "mtp_loss/" + std::to_string(depth); }

std::vector<std::string> CrossEntropy::SumNames(int64_t mtp_depths) const {
  std::vector<std::string> names = {kLoss};
  for (int64_t depth = 1; depth <= mtp_depths; ++depth) names.push_back(MtpLossName(depth));
  if (options_.count_correct) names.push_back(kCorrect);
  return names;
}

struct CrossEntropy::Part {
  const at::Tensor& hidden;  // [tokens, hidden]
  std::string name;          // of its loss
  double weight = 1;         // in the gradient
};

std::vector<at::Tensor> CrossEntropy::Run(const HeadStates& head, PassContext& pass) const {
  TRIREME_CHECK(!(options_.count_correct && pass.options.differentiate))
      << "correct predictions are counted in evaluation only";
  std::vector<at::Tensor> gradients = {RunDepth(head, {head.hidden.at(0), kLoss}, pass, *pass.output)};
  for (int64_t depth = 0; depth < pass.mtp_depths(); ++depth) {
    const Part part{head.hidden.at(static_cast<size_t>(depth) + 1), MtpLossName(depth + 1), head.mtp_weight};
    gradients.push_back(RunDepth(head, part, pass.mtp(depth), *pass.output));
  }
  return gradients;
}

// Of each token of the chunk: [tokens] fp32.
at::Tensor CrossEntropy::LossesOf(const LogitChunk& chunk, const ChunkStatistics& statistics,
                                  const HeadStates& head) const {
  const LogitPenalties& penalties = options_.penalties;
  if (!penalties.any()) return statistics.log_sum_exp - statistics.picked;
  const at::Tensor target = statistics.picked * (1 - penalties.smoothing);
  if (penalties.smoothing > 0) target.add_(MeanLogits(chunk, head), penalties.smoothing);
  return statistics.log_sum_exp - target + statistics.log_sum_exp.square() * penalties.z_coefficient;
}

at::Tensor CrossEntropy::RunDepth(const HeadStates& head, const Part& part, const PassContext& pass,
                                  PassOutput& output) const {
  const bool differentiate = pass.options.differentiate;
  const double scale = pass.totals.per_trained();
  const auto loss_options = part.hidden.options().dtype(at::kFloat);
  const TrainedTokens trained(part.hidden, pass.input);
  const LogitChunks chunks(trained, head, options_.chunk_bytes);
  const bool by_token = options_.penalties.any() || options_.by_probability;
  const at::Tensor weights = WeightsOf(trained, pass.input, by_token);
  GradientChunks weighted(head, trained, differentiate && weights.defined());
  const at::Tensor gradient = weights.defined() ? weighted.hidden() : RoomFor(trained, differentiate);
  const at::Tensor loss = at::zeros({}, loss_options), correct = at::zeros_like(loss);
  for (int64_t i = 0; i < chunks.count(); ++i) {
    const LogitChunk chunk = chunks.Make(i);
    const ChunkStatistics statistics = StatisticsOf(chunk, head);
    const at::Tensor losses = LossesOf(chunk, statistics, head);
    if (options_.by_probability) weights.narrow(0, chunk.begin, chunk.size()).mul_(at::exp(-losses));
    loss.add_((weights.defined() ? losses * weights.narrow(0, chunk.begin, chunk.size()) : losses).sum());
    if (options_.count_correct) correct.add_(CountCorrect(chunk, statistics.largest, head));
    if (!differentiate) continue;
    if (options_.penalties.any()) {
      weighted.AddWithPenalties(chunk, weights * (-scale * part.weight), statistics.log_sum_exp, options_.penalties);
      continue;
    }
    if (weights.defined()) {
      weighted.Add(chunk, weights * (-scale * part.weight), statistics.log_sum_exp);
      continue;
    }
    LogitsToGradient(chunk.logits, chunk.labels, head.columns, statistics.log_sum_exp, scale * part.weight);
    if (chunk.slope.defined()) chunk.logits.mul_(chunk.slope);
    at::Tensor own = gradient.narrow(0, chunk.begin, chunk.size());
    at::mm_out(own, chunk.logits, head.weight.value);
    AddWeightGradient(head.weight, chunk.logits, chunk.inputs);
  }
  output.Add(part.name, loss.mul_(scale));
  if (options_.count_correct) output.Add(kCorrect, correct);
  if (!differentiate) return {};
  return at::zeros_like(part.hidden).index_copy_(0, trained.positions, gradient);
}

std::unique_ptr<Objective> MakeCrossEntropy(const ObjectiveOptions& options) {
  return std::make_unique<CrossEntropy>(CrossEntropyOptions{
      .penalties = {.smoothing = options.tokens.label_smoothing, .z_coefficient = options.tokens.z_coefficient},
      .by_probability = options.tokens.by_probability});
}

}  // namespace trireme
