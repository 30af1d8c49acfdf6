// Scores and vectors of whole texts against autograd on plain formulas in fp64: pooling, rerankers each document by
// itself and in lists, two tokens' logits of a head that is split over ranks, and classifiers.
#include <gtest/gtest.h>

#include <functional>

#include "parallel/objectives/objective_options.h"
#include "parallel/objectives/objectives.h"
#include "parallel/objectives/text_facts.h"
#include "tests/parallel/objectives/head_problem.h"

namespace trireme {
namespace {

constexpr int64_t kTexts = 4;

// Texts of 8, 7, 4 and 2 tokens, the second and third of one record; the last two tokens are padding of no text.
struct TextProblem : HeadProblem {
  explicit TextProblem(std::vector<double> values) : HeadProblem(at::kFloat) {
    const std::vector<int64_t> lengths = {8, 7, 4, 2};
    input.sequence = at::full({tokens}, -1, at::kLong);
    input.positions = at::zeros({tokens}, at::kLong);
    input.document_tokens = at::ones({tokens}, at::kLong);
    input.last_tokens.clear();
    int64_t begin = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      input.sequence.narrow(0, begin, lengths[i]).fill_(static_cast<int64_t>(i));
      input.positions.narrow(0, begin, lengths[i]).copy_(at::arange(lengths[i], at::kLong));
      input.document_tokens.narrow(0, begin, lengths[i]).fill_(lengths[i]);
      begins.push_back(begin);
      begin += lengths[i];
      ends.push_back(begin);
      input.last_tokens.push_back(begin - 1);
    }
    input.real = input.sequence.ge(0);
    input.sequences = kTexts;
    input.samples = {0, 1, 1, 2};
    input.facts.Edit<TextFacts>().values = std::move(values);
  }

  // [texts, size], differentiable by `states`.
  at::Tensor Pooled(const at::Tensor& states, TextPooling pooling) const {
    std::vector<at::Tensor> pooled;
    for (size_t i = 0; i < begins.size(); ++i) {
      const at::Tensor own = states.narrow(0, begins[i], ends[i] - begins[i]);
      pooled.push_back(pooling == TextPooling::kMean    ? own.mean(0)
                       : pooling == TextPooling::kFirst ? own[0]
                                                        : own[own.size(0) - 1]);
    }
    return at::stack(pooled);
  }

  std::vector<int64_t> begins, ends;
};

// The same numbers in the head's place: [labels, size] on every rank, or this rank's rows of the vocabulary.
struct TextRun {
  double loss = 0;
  at::Tensor scores, hidden_gradient, weight_gradient;
};

TextRun RunTexts(const Objective& objective, const TextProblem& problem, const Weight& weight, BatchTotals totals) {
  const PassOptions options{.objective = &objective, .totals = std::move(totals), .wants = {.sequence_scores = true}};
  PassBatch batch({problem.input}, options);
  const std::vector<at::Tensor> gradients = objective.Run(problem.StatesOf(weight), batch.at(0));
  const PassOutput& output = batch.result().outputs[0];
  TextRun run{.loss = output.sums.at("loss").item<double>(),
              .scores = output.sequence_scores,
              .hidden_gradient = gradients.at(0).contiguous()};
  if (weight.gradient.defined()) run.weight_gradient = weight.gradient - 1;
  AllReduce(run.hidden_gradient, World());
  return run;
}

BatchTotals Totals(int64_t documents, int64_t samples) {
  BatchTotals totals{.samples = samples};
  totals.facts.Edit<TextTotals>() = {.documents = documents, .positive_token = 11, .negative_token = 37};
  return totals;
}

using Formula = std::function<at::Tensor(const at::Tensor& scores)>;

// A value head of so many labels.
void ExpectLikeFormula(const TextLossOptions& texts, const char* name, const TextProblem& p, int64_t labels,
                       const BatchTotals& totals, const Formula& formula) {
  const auto objective = MakeObjective(name, {.texts = texts});
  const at::Tensor value = p.whole.narrow(0, 0, labels).contiguous();
  const Weight weight{"score", value, at::ones({labels, p.size})};
  const TextRun run = RunTexts(*objective, p, weight, totals);
  const at::AutoGradMode graph(true);
  const at::Tensor states = p.hidden.to(at::kDouble).requires_grad_(true);
  const at::Tensor wide = value.to(at::kDouble).requires_grad_(true);
  const at::Tensor scores = at::mm(p.Pooled(states, texts.pooling), wide.t());
  const at::Tensor loss = formula(scores);
  loss.backward();
  EXPECT_NEAR(run.loss, loss.item<double>(), 1e-5) << name;
  EXPECT_LT(RelativeError(run.scores.view({-1, labels}), scores.detach()), 1e-5) << name;
  EXPECT_LT(RelativeError(run.hidden_gradient, states.grad()), 1e-5) << name;
  EXPECT_LT(RelativeError(run.weight_gradient, wide.grad()), 1e-5) << name;
}

at::Tensor Cross(const at::Tensor& scores, const at::Tensor& wanted) {
  return -(wanted * scores.sigmoid().log() + (1 - wanted) * (-scores).sigmoid().log());
}

at::Tensor Double(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }

TEST(TextScores, PointwiseRerankersPoolAnyWay) {
  for (const TextPooling pooling : {TextPooling::kLast, TextPooling::kMean, TextPooling::kFirst}) {
    const std::vector<double> labels = {1, 0, 0.25, 1};
    ExpectLikeFormula({.pooling = pooling}, "reranker", TextProblem(labels), 1, Totals(8, 3),
                      [&](const at::Tensor& scores) { return Cross(scores.squeeze(1), Double(labels)).sum() / 8; });
  }
}

TEST(TextScores, ListwiseRerankersCompareTheDocumentsOfAQuery) {
  const std::vector<double> labels = {2, 1, 3, 1};
  const TextLossOptions options{.temperature = 0.5, .listwise = true};
  ExpectLikeFormula(options, "reranker", TextProblem(labels), 1, Totals(8, 6), [&](const at::Tensor& scores) {
    const at::Tensor list = scores.narrow(0, 1, 2).squeeze(1) / 0.5;
    return -(Double({0.25, 0.75}) * at::log_softmax(list, 0)).sum() / 6 + 0 * scores.sum();
  });
}

TEST(TextScores, ClassifiersHaveTransformersLosses) {
  const TextLossOptions single{.pooling = TextPooling::kMean};
  ExpectLikeFormula(single, "classification", TextProblem({2, 0, 1, 2}), 3, Totals(5, 5), [](const at::Tensor& scores) {
    const at::Tensor picked = at::log_softmax(scores, 1).gather(1, at::tensor({2, 0, 1, 2}, at::kLong).unsqueeze(1));
    return -picked.sum() / 5;
  });
  const std::vector<double> several = {1, 0, 0, 1, 1, 1, 0, 0};
  ExpectLikeFormula({.labels = LabelKind::kMulti}, "classification", TextProblem(several), 2, Totals(4, 4),
                    [&](const at::Tensor& scores) { return Cross(scores.flatten(), Double(several)).mean(); });
  const std::vector<double> numbers = {1.5, -2, 0.5, 3};
  ExpectLikeFormula({.labels = LabelKind::kRegression}, "classification", TextProblem(numbers), 1, Totals(4, 4),
                    [&](const at::Tensor& scores) { return (scores.flatten() - Double(numbers)).square().mean(); });
}

TEST(TextScores, AGenerativeRerankerTakesTwoTokensLogits) {
  const std::vector<double> labels = {1, 0, 0, 1};
  TextProblem p(labels);
  const auto objective = MakeObjective("generative_reranker", {});
  const Weight weight = p.OwnWeight();
  const TextRun run = RunTexts(*objective, p, weight, Totals(4, 4));
  const at::AutoGradMode graph(true);
  const at::Tensor states = p.hidden.to(at::kDouble).requires_grad_(true);
  const at::Tensor wide = p.whole.to(at::kDouble).requires_grad_(true);
  const at::Tensor logits = at::mm(p.Pooled(states, TextPooling::kLast), wide.t());
  const at::Tensor scores = logits.select(1, 11) - logits.select(1, 37);
  const at::Tensor loss = Cross(scores, Double(labels)).mean();
  loss.backward();
  EXPECT_NEAR(run.loss, loss.item<double>(), 1e-5);
  EXPECT_LT(RelativeError(run.scores, scores.detach()), 1e-5);
  EXPECT_LT(RelativeError(run.hidden_gradient, states.grad()), 1e-5);
  EXPECT_LT((run.weight_gradient - wide.grad().narrow(0, p.first(), p.shard_rows)).abs().max().item<double>(), 1e-5);
}

TEST(TextScores, AVectorTakesItsGradientBackToItsTokens) {
  for (const TextPooling pooling : {TextPooling::kLast, TextPooling::kMean, TextPooling::kFirst}) {
    TextProblem p({});
    const at::Tensor by_vector = at::randn({kTexts, p.size});
    p.input.facts.Edit<TextFacts>().by_vector = by_vector;
    p.input.facts.Edit<TextFacts>().loss = 3;
    const auto objective = MakeObjective("embedding", {.texts = {.pooling = pooling}});
    const TextRun run = RunTexts(*objective, p, {"norm", at::ones({p.size})}, Totals(kTexts, 1));
    const at::AutoGradMode graph(true);
    const at::Tensor states = p.hidden.to(at::kDouble).requires_grad_(true);
    const at::Tensor pooled = p.Pooled(states, pooling);
    (pooled * by_vector.to(at::kDouble)).sum().backward();
    EXPECT_EQ(run.loss, 3);
    EXPECT_LT(RelativeError(run.scores.view({kTexts, p.size}), pooled.detach()), 1e-5);
    EXPECT_LT(RelativeError(run.hidden_gradient, states.grad()), 1e-5);
  }
}

}  // namespace
}  // namespace trireme
