// Distillation: the generalised Jensen-Shannon divergence of a student's and a teacher's distribution over the
// vocabulary, at every trained label, with its ends, the forward and the reverse KL divergence. The teacher's hidden
// states are in TeacherFacts. Sums: `loss`, a mean over the trained tokens of the batch.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/base/error.h"
#include "ops/linear/linear.h"
#include "parallel/objectives/objective_options.h"
#include "parallel/objectives/teacher_states.h"
#include "parallel/objectives/vocabulary.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// The log-probabilities of some tokens by both and by their mixture, over this rank's columns: [tokens, columns] fp32.
struct BothLogProbs {
  at::Tensor student, teacher, mixture;
};

// A chunk of tokens with both models' logits, at the loss's temperature.
struct BothChunks {
  LogitChunk student, teacher;
  at::Tensor student_sum, teacher_sum;  // log of the sum of exponentials: [tokens] fp32
};

class DistillationObjective : public Objective {
 public:
  explicit DistillationObjective(const DistillationOptions& options)
      : beta_(options.beta), temperature_(options.temperature) {}

  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override { return {"loss"}; }
  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const override;

 private:
  // Calls `use` with the index of the first token of each block of the chunk: as many as are fp32 at once.
  template <typename Use>
  void ForBlocks(const BothChunks& chunks, const HeadStates& head, const Use& use) const;
  BothLogProbs LogProbsOf(const BothChunks& chunks, int64_t begin, int64_t size, const HeadStates& head) const;
  // KL(student, mixture) and KL(teacher, mixture) of each token: [2, tokens] fp32. Collective over head.tensor.
  at::Tensor Divergences(const BothChunks& chunks, const HeadStates& head) const;
  // The student's logits become scale x the gradient of the divergence with respect to them.
  void ToGradient(const BothChunks& chunks, const at::Tensor& student_kl, double scale, const HeadStates& head) const;

  const double beta_, temperature_;
};

template <typename Use>
void DistillationObjective::ForBlocks(const BothChunks& chunks, const HeadStates& head, const Use& use) const {
  const int64_t block = chunks.student.logits.is_cpu() ? 32 : 1024;
  for (int64_t begin = 0; begin < chunks.student.size(); begin += block) {
    const int64_t size = std::min(block, chunks.student.size() - begin);
    use(begin, size, LogProbsOf(chunks, begin, size, head));
  }
}

BothLogProbs DistillationObjective::LogProbsOf(const BothChunks& chunks, int64_t begin, int64_t size,
                                               const HeadStates& head) const {
  const auto log_probs = [&](const LogitChunk& chunk, const at::Tensor& log_sum_exp) {
    const at::Tensor logits = chunk.logits.narrow(0, begin, size).narrow(1, 0, head.columns.count).to(at::kFloat);
    return logits - log_sum_exp.narrow(0, begin, size).unsqueeze(1);
  };
  BothLogProbs both{log_probs(chunks.student, chunks.student_sum), log_probs(chunks.teacher, chunks.teacher_sum), {}};
  if (beta_ == 0) {
    both.mixture = both.student;
  } else if (beta_ == 1) {
    both.mixture = both.teacher;
  } else {
    both.mixture = at::logaddexp(both.student + std::log1p(-beta_), both.teacher + std::log(beta_));
  }
  return both;
}

at::Tensor DistillationObjective::Divergences(const BothChunks& chunks, const HeadStates& head) const {
  const at::Tensor sums = at::zeros({2, chunks.student.size()}, chunks.student_sum.options());
  ForBlocks(chunks, head, [&](int64_t begin, int64_t size, const BothLogProbs& both) {
    sums[0].narrow(0, begin, size).copy_((both.student.exp() * (both.student - both.mixture)).sum(1));
    sums[1].narrow(0, begin, size).copy_((both.teacher.exp() * (both.teacher - both.mixture)).sum(1));
  });
  AllReduce(sums, head.tensor);
  return sums;
}

// With student probabilities s and their KL K from the mixture m: (1 - beta) s (log(s/m) - K); where beta is 1 the
// factor is 1, and where it is 0 the gradient is s minus the teacher's probabilities.
void DistillationObjective::ToGradient(const BothChunks& chunks, const at::Tensor& student_kl, double scale,
                                       const HeadStates& head) const {
  const double factor = beta_ == 1 ? scale : scale * (1 - beta_);
  const at::Tensor& logits = chunks.student.logits;
  ForBlocks(chunks, head, [&](int64_t begin, int64_t size, const BothLogProbs& both) {
    const at::Tensor probabilities = both.student.exp();
    const at::Tensor gradient =
        beta_ == 0
            ? (probabilities - both.teacher.exp()) * scale
            : probabilities * (both.student - both.mixture - student_kl.narrow(0, begin, size).unsqueeze(1)) * factor;
    logits.narrow(0, begin, size).narrow(1, 0, head.columns.count).copy_(gradient);
  });
  const int64_t padding = logits.size(1) - head.columns.count;
  if (padding > 0) logits.narrow(1, head.columns.count, padding).zero_();
  if (chunks.student.slope.defined()) logits.mul_(chunks.student.slope);
}

std::vector<at::Tensor> DistillationObjective::Run(const HeadStates& head, PassContext& pass) const {
  const TeacherFacts& teacher = pass.input.facts.Get<TeacherFacts>();
  TRIREME_CHECK(pass.mtp_depths() == 0) << "distillation does not support multi-token prediction";
  TRIREME_CHECK(teacher.hidden.defined() && teacher.head_weight.defined()) << "the teacher's states are missing";
  const at::Tensor& hidden = head.hidden.at(0);
  const TrainedTokens trained(hidden, pass.input);
  TrainedTokens taught = trained;
  taught.inputs = teacher.hidden;
  const LogitChunks student_chunks(trained, head), teacher_chunks(taught, teacher.head_weight, teacher.soft_cap);
  TRIREME_CHECK(student_chunks.count() == teacher_chunks.count())
      << "student and teacher differ in vocabulary or dtype";
  const double share = pass.totals.per_trained();
  const at::Tensor loss = at::zeros({}, hidden.options().dtype(at::kFloat));
  const bool differentiate = pass.options.differentiate;
  const at::Tensor gradient = differentiate ? at::empty_like(trained.inputs) : at::Tensor();
  for (int64_t i = 0; i < student_chunks.count(); ++i) {
    BothChunks chunks{student_chunks.Make(i), teacher_chunks.Make(i), {}, {}};
    if (temperature_ != 1) chunks.student.logits.div_(temperature_);
    if (temperature_ != 1) chunks.teacher.logits.div_(temperature_);
    chunks.student_sum = StatisticsOf(chunks.student, head).log_sum_exp;
    chunks.teacher_sum = StatisticsOf(chunks.teacher, head).log_sum_exp;
    const at::Tensor divergences = Divergences(chunks, head);
    loss.add_(divergences[0].sum(), beta_ == 1 ? share : beta_ == 0 ? 0.0 : share * (1 - beta_));
    loss.add_(divergences[1].sum(), beta_ == 0 ? share : beta_ == 1 ? 0.0 : share * beta_);
    if (!differentiate) continue;
    ToGradient(chunks, divergences[0], share / temperature_, head);
    at::Tensor own = gradient.narrow(0, chunks.student.begin, chunks.student.size());
    at::mm_out(own, chunks.student.logits, head.weight.value);
    AddWeightGradient(head.weight, chunks.student.logits, chunks.student.inputs);
  }
  pass.output->Add("loss", loss);
  if (!differentiate) return {{}};
  return {at::zeros_like(hidden).index_copy_(0, trained.positions, gradient)};
}

}  // namespace

std::unique_ptr<Objective> MakeDistillation(const ObjectiveOptions& options) {
  return std::make_unique<DistillationObjective>(options.distillation);
}

}  // namespace trireme
