#include "train/methods/retrieval/retrieval.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "parallel/pass/pass_batch.h"
#include "stages/objective_options.h"
#include "stages/retrieval_check.h"
#include "train/step/batches.h"

namespace trireme {

RetrievalPass::RetrievalPass(Trainer& trainer)
    : trainer_(trainer),
      session_(trainer.session()),
      how_(ObjectiveOptionsOf(session_.config()).texts),
      of_vectors_(HeadOf(session_.config()) == HeadKind::kVector),
      evaluation_(session_) {
  if (!of_vectors_) return;
  const int64_t hidden = evaluation_.numbers().of_each();
  for (const int64_t size : how_.matryoshka) {
    if (size > hidden) {
      throw InputError("retrieval.matryoshka has ", size, "; the model's vectors have ", hidden, " numbers");
    }
  }
}

double RetrievalPass::Pass(const RowSource& rows, std::span<const int64_t> chosen) {
  if (of_vectors_) return PassOfVectors(rows, chosen);
  const BatchTotals totals = TextTotalsOf(TextBatchOf(rows, chosen), evaluation_.numbers().totals(), rows, chosen);
  PassBatch batch(MakePassInputs(rows, chosen, ShapeOf(session_)), trainer_.OptionsOf(totals));
  return trainer_.Pass(batch);
}

double RetrievalPass::PassOfVectors(const RowSource& rows, std::span<const int64_t> chosen) {
  const TextBatch texts = TextBatchOf(rows, chosen);
  const TextNumbers& numbers = evaluation_.numbers();
  // Of the same seed: both passes drop the same values.
  const PassOptions options = trainer_.OptionsOf(TextTotalsOf(texts, numbers.totals(), rows, chosen));
  std::vector<PassInput> inputs = MakePassInputs(rows, chosen, ShapeOf(session_));
  const at::Tensor vectors = numbers.Of(inputs, options, texts.firsts, nullptr);
  const DifferentiatedVectors found = LossOfVectors(vectors, texts, how_, /*differentiate=*/true);
  for (PassInput& input : inputs) {
    const std::vector<int64_t> places = TextPlaces(input, texts.firsts);
    TextFacts& facts = input.facts.Edit<TextFacts>();
    const at::Tensor index = at::tensor(places, at::kLong).to(vectors.device());
    if (!places.empty()) facts.by_vector = found.by_vector.index_select(0, index);
    if (!places.empty() && places[0] == 0) facts.loss = found.loss;  // one micro batch has the first text
  }
  PassBatch batch(std::move(inputs), options);
  return trainer_.Pass(batch);
}

}  // namespace trireme
