#include "train/methods/retrieval/retrieval.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "parallel/pass/pass_batch.h"
#include "parallel/tensor/collectives.h"
#include "stages/objective_options.h"
#include "stages/retrieval_check.h"
#include "stages/stage.h"
#include "text/tokenizer.h"
#include "train/evaluation/text_metrics.h"
#include "train/step/batches.h"

namespace trireme {
namespace {

// Equal for equal texts: FNV-1a over their tokens.
uint64_t ContentOf(std::span<const int64_t> ids) {
  uint64_t content = 14695981039346656037ULL;
  for (const int64_t id : ids) content = (content ^ static_cast<uint64_t>(id)) * 1099511628211ULL;
  return content;
}

// Every rank reads all rows of the step: what the data says of them needs no communication.
TextBatch BatchOf(const RowSource& rows, std::span<const int64_t> chosen) {
  TextBatch batch;
  for (const int64_t index : chosen) {
    const Row row = rows.Read(index);
    batch.firsts.push_back(batch.firsts.back() + std::ssize(row.starts));
    batch.values.insert(batch.values.end(), row.values.begin(), row.values.end());
    for (size_t i = 0; i < row.starts.size(); ++i) {
      const int64_t begin = row.starts[i];
      const int64_t end = i + 1 < row.starts.size() ? row.starts[i + 1] : std::ssize(row.input_ids);
      batch.contents.push_back(ContentOf({row.input_ids.data() + begin, static_cast<size_t>(end - begin)}));
    }
  }
  return batch;
}

// The places of a micro batch's documents among all texts of the batch: those of a row follow each other.
std::vector<int64_t> PlacesOf(const PassInput& input, const TextBatch& batch) {
  std::vector<int64_t> places;
  int64_t row = -1, within = 0;
  for (const int64_t sample : input.samples) {
    within = RowOf(sample) == row ? within + 1 : 0;
    row = RowOf(sample);
    places.push_back(batch.firsts.at(static_cast<size_t>(row)) + within);
  }
  return places;
}

at::Tensor IndexOf(const std::vector<int64_t>& places, at::Device device) {
  return at::tensor(places, at::kLong).to(device);
}

int64_t TokenOf(const Tokenizer& tokenizer, const std::string& text, const char* key) {
  const std::vector<int32_t> ids = tokenizer.Encode(text).ids;
  if (ids.size() == 1) return ids[0];
  throw InputError(key, ": '", text, "' is ", ids.size(), " tokens of this tokenizer; wanted one");
}

}  // namespace

// Scores or cosines of all texts, and what the data says of them.
struct RetrievalPass::Evaluated {
  RankingMetrics ranking;
  LabelMetrics labels;
  std::vector<double> predicted, wanted;
  double loss = 0, records = 0;

  explicit Evaluated(size_t count) : labels(count) {}
};

RetrievalPass::RetrievalPass(Trainer& trainer)
    : trainer_(trainer),
      session_(trainer.session()),
      how_(ObjectiveOptionsOf(session_.config()).texts),
      of_vectors_(HeadOf(session_.config()) == HeadKind::kVector) {
  const Config& config = session_.config();
  if (of_vectors_) {
    const int64_t hidden = std::get<HeadSpec>(session_.graph().layers.back().spec).hidden;
    for (const int64_t size : how_.matryoshka) {
      if (size > hidden) {
        throw InputError("retrieval.matryoshka has ", size, "; the model's vectors have ", hidden, " numbers");
      }
    }
  }
  if (!IsGenerative(config)) return;
  const Tokenizer tokenizer(config.model().path());
  fixed_.positive_token = TokenOf(tokenizer, config.retrieval().positive_token(), "retrieval.positive_token");
  fixed_.negative_token = TokenOf(tokenizer, config.retrieval().negative_token(), "retrieval.negative_token");
}

BatchTotals RetrievalPass::TotalsOfTexts(const TextBatch& batch, const RowSource& rows,
                                         std::span<const int64_t> chosen) const {
  BatchTotals totals = TotalsOf(rows, chosen);
  totals.samples = batch.records();
  TextTotals& texts = totals.facts.Edit<TextTotals>();
  texts = fixed_;
  texts.documents = batch.texts();
  return totals;
}

double RetrievalPass::Pass(const RowSource& rows, std::span<const int64_t> chosen) {
  if (of_vectors_) return PassOfVectors(rows, chosen);
  const PassOptions options = trainer_.OptionsOf(TotalsOfTexts(BatchOf(rows, chosen), rows, chosen));
  PassBatch batch(MakePassInputs(rows, chosen, ShapeOf(session_)), options);
  return trainer_.Pass(batch);
}

double RetrievalPass::PassOfVectors(const RowSource& rows, std::span<const int64_t> chosen) {
  const TextBatch texts = BatchOf(rows, chosen);
  // Of the same seed: both passes drop the same values.
  const PassOptions options = trainer_.OptionsOf(TotalsOfTexts(texts, rows, chosen));
  std::vector<PassInput> inputs = MakePassInputs(rows, chosen, ShapeOf(session_));
  const at::Tensor vectors = NumbersOf(texts, inputs, options, nullptr);
  const DifferentiatedVectors found = LossOfVectors(vectors, texts, how_, /*differentiate=*/true);
  for (PassInput& input : inputs) {
    const std::vector<int64_t> places = PlacesOf(input, texts);
    TextFacts& facts = input.facts.Edit<TextFacts>();
    if (!places.empty()) facts.by_vector = found.by_vector.index_select(0, IndexOf(places, vectors.device()));
    if (!places.empty() && places[0] == 0) facts.loss = found.loss;  // one micro batch has the first text
  }
  PassBatch batch(std::move(inputs), options);
  return trainer_.Pass(batch);
}

at::Tensor RetrievalPass::NumbersOf(const TextBatch& batch, const std::vector<PassInput>& inputs, PassOptions options,
                                    double* loss) {
  options.differentiate = false;
  options.wants.sequence_scores = true;
  PassBatch forward(inputs, options);
  session_.RunForward(forward);
  if (loss != nullptr) *loss = session_.ReduceSums(forward.result(), options.objective->SumNames(0)).at("loss");
  const auto& head = std::get<HeadSpec>(session_.graph().layers.back().spec);
  const int64_t numbers = of_vectors_ ? head.hidden : head.scores ? head.vocabulary : 1;
  const at::Tensor table =
      at::zeros({batch.texts(), numbers}, at::TensorOptions(at::kFloat).device(session_.tensors().torch()));
  // Of the ranks that have the same rows, one tells.
  const bool speaks = session_.Coordinate("tp") == 0 && session_.Coordinate("cp") == 0;
  for (int i = 0; i < forward.size() && speaks; ++i) {
    const PassOutput& output = forward.result().outputs[static_cast<size_t>(i)];
    const at::Tensor& found = output.sequence_scores;
    if (!found.defined() || found.numel() == 0) continue;
    table.index_copy_(0, IndexOf(PlacesOf(forward.input(i), batch), table.device()), found.view({-1, numbers}));
  }
  AllReduce(table, session_.world());
  return table;
}

// Documents of other records are candidates, too, where they are negatives in training; those equal to the positive are
// none.
RankedQuery RetrievalPass::CandidatesOf(const TextBatch& batch, int64_t record, std::span<const float> cosines) const {
  const auto first = static_cast<size_t>(batch.firsts[static_cast<size_t>(record)]) + 1;
  RankedQuery query;
  size_t document = 0;
  for (int64_t other = 0; other < batch.records(); ++other) {
    const auto begin = static_cast<size_t>(batch.firsts[static_cast<size_t>(other)]) + 1;
    const auto end = static_cast<size_t>(batch.firsts[static_cast<size_t>(other) + 1]);
    for (size_t text = begin; text < end; ++text, ++document) {
      const bool own = other == record, equal = batch.contents[text] == batch.contents[first];
      if (!own && (!how_.in_batch || equal)) continue;
      query.scores.push_back(cosines[document]);
      query.labels.push_back(own ? batch.values[text] : 0);
    }
  }
  return query;
}

void RetrievalPass::AddVectors(const TextBatch& batch, const at::Tensor& vectors, Evaluated& so_far) const {
  const at::Tensor cosines = CosinesOf(vectors, batch);
  size_t document = 0;
  for (int64_t record = 0; record < batch.records(); ++record) {
    const std::span<const float> row(cosines[record].data_ptr<float>(), static_cast<size_t>(cosines.size(1)));
    if (how_.loss == VectorLoss::kInfoNce) {
      so_far.ranking.Add(CandidatesOf(batch, record, row));
      continue;
    }
    const auto begin = static_cast<size_t>(batch.firsts[static_cast<size_t>(record)]) + 1;
    for (size_t text = begin; text < static_cast<size_t>(batch.firsts[static_cast<size_t>(record) + 1]); ++text) {
      so_far.predicted.push_back(row[document++]);
      so_far.wanted.push_back(batch.values[text]);
    }
  }
}

// numbers: of each text, in host memory.
void RetrievalPass::AddScores(const TextBatch& batch, const at::Tensor& numbers, Evaluated& so_far) const {
  const float* score = numbers.data_ptr<float>();
  if (FactsOf(session_.config()).records == Records::kRanked) {
    for (size_t record = 0; record + 1 < batch.firsts.size(); ++record) {
      const int64_t begin = batch.firsts[record], end = batch.firsts[record + 1];
      so_far.ranking.Add({.scores = {score + begin, score + end},
                          .labels = {batch.values.begin() + begin, batch.values.begin() + end}});
    }
    return;
  }
  const auto labels = static_cast<size_t>(numbers.size(1));
  for (size_t text = 0; text < static_cast<size_t>(batch.texts()); ++text) {
    const std::span<const float> own(score + text * labels, labels);
    if (how_.labels == LabelKind::kRegression) {
      so_far.predicted.insert(so_far.predicted.end(), own.begin(), own.end());
      const auto wanted = batch.values.begin() + static_cast<int64_t>(text * labels);
      so_far.wanted.insert(so_far.wanted.end(), wanted, wanted + static_cast<int64_t>(labels));
      continue;
    }
    std::vector<bool> has(labels, false), given(labels, false);
    if (how_.labels == LabelKind::kSingle) {
      has[static_cast<size_t>(batch.values[text])] = true;
      given[static_cast<size_t>(std::ranges::max_element(own) - own.begin())] = true;
    } else {
      for (size_t label = 0; label < labels; ++label) {
        has[label] = batch.values[text * labels + label] > 0.5;
        given[label] = own[label] > 0;  // a probability above one half
      }
    }
    so_far.labels.Add(has, given);
  }
}

void RetrievalPass::EvaluateBatch(const RowSource& rows, std::span<const int64_t> chosen, Evaluated& so_far) {
  const TextBatch batch = BatchOf(rows, chosen);
  PassOptions options = trainer_.OptionsOf(TotalsOfTexts(batch, rows, chosen));
  options.dropout = std::nullopt;
  double loss = 0;
  const std::vector<PassInput> inputs = MakePassInputs(rows, chosen, ShapeOf(session_));
  const at::Tensor numbers = NumbersOf(batch, inputs, options, of_vectors_ ? nullptr : &loss);
  if (of_vectors_) {
    loss = LossOfVectors(numbers, batch, how_, /*differentiate=*/false).loss;
    AddVectors(batch, numbers, so_far);
  } else {
    AddScores(batch, numbers.to(at::kCPU).contiguous(), so_far);
  }
  const auto records = static_cast<double>(batch.records());
  so_far.loss += loss * records;
  so_far.records += records;
}

Evaluation RetrievalPass::Evaluate(const RowSource& rows) {
  const int64_t global_batch = session_.config().run().global_batch();
  const auto& head = std::get<HeadSpec>(session_.graph().layers.back().spec);
  Evaluated all(head.scores ? static_cast<size_t>(head.vocabulary) : 0);
  for (int64_t first = 0; first < rows.size(); first += global_batch) {
    std::vector<int64_t> chosen(static_cast<size_t>(std::min(global_batch, rows.size() - first)));
    std::iota(chosen.begin(), chosen.end(), first);
    EvaluateBatch(rows, chosen, all);
  }
  Evaluation evaluation{.loss = all.loss / all.records, .judged_by = RetrievalMetric(session_.config())};
  for (const auto& found : {all.ranking.Take(), all.labels.Take(), NumberMetrics(all.predicted, all.wanted)}) {
    evaluation.metrics.insert(found.begin(), found.end());
  }
  return evaluation;
}

}  // namespace trireme
