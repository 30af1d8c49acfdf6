// Vectors of texts: their loss compares all texts of the global batch, so whoever trains computes it between two passes
// (train/methods/retrieval): the first gives the vectors, the second takes the gradient of each. Here is what is the
// model's part of that. Sums: `loss`.
#include <ATen/ATen.h>

#include <memory>

#include "core/base/error.h"
#include "parallel/objectives/objective.h"
#include "parallel/objectives/objective_options.h"
#include "parallel/objectives/pooled_texts.h"
#include "parallel/objectives/text_facts.h"

namespace trireme {
namespace {

class EmbeddingObjective : public Objective {
 public:
  explicit EmbeddingObjective(TextPooling pooling) : pooling_(pooling) {}
  bool needs_scores() const override { return true; }  // of each vector all of its numbers
  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override { return {"loss"}; }
  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const override;

 private:
  const TextPooling pooling_;
};

std::vector<at::Tensor> EmbeddingObjective::Run(const HeadStates& head, PassContext& pass) const {
  TRIREME_CHECK(pass.mtp_depths() == 0) << "vectors of texts do not support multi-token prediction";
  const PooledTexts texts(head.hidden.at(0), pooling_, pass.input, head.context);
  if (pass.options.wants.sequence_scores) pass.output->sequence_scores = texts.vectors().flatten();
  const TextFacts& facts = pass.input.facts.Get<TextFacts>();
  // Each context rank has the same number: one speaks for all.
  const double loss = head.context.rank() == 0 ? facts.loss : 0;
  pass.output->Add("loss", at::scalar_tensor(loss, texts.vectors().options()));
  if (!pass.options.differentiate) return {{}};
  TRIREME_CHECK(pass.input.sequences == 0 || facts.by_vector.defined())
      << "no gradient of the batch's vectors is known";
  // All tensor-parallel ranks compute the same: one of them is the whole sum.
  if (head.tensor.rank() != 0 || pass.input.sequences == 0) return {at::zeros_like(head.hidden[0])};
  return {texts.ToTokens(facts.by_vector)};
}

}  // namespace

std::unique_ptr<Objective> MakeEmbedding(const ObjectiveOptions& options) {
  return std::make_unique<EmbeddingObjective>(options.texts.pooling);
}

}  // namespace trireme
