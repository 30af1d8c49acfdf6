#include "train/methods/retrieval/retrieval_evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "stages/objective_options.h"
#include "stages/retrieval_check.h"
#include "train/step/batches.h"

namespace trireme {
namespace {

// Equal for equal texts: FNV-1a over their tokens.
uint64_t ContentOf(std::span<const int64_t> ids) {
  uint64_t content = 14695981039346656037ULL;
  for (const int64_t id : ids) content = (content ^ static_cast<uint64_t>(id)) * 1099511628211ULL;
  return content;
}

}  // namespace

// Every rank reads all rows of the step: what the data says of them needs no communication.
TextBatch TextBatchOf(const RowSource& rows, std::span<const int64_t> chosen) {
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

BatchTotals TextTotalsOf(const TextBatch& batch, const TextTotals& of_all, const RowSource& rows,
                         std::span<const int64_t> chosen) {
  BatchTotals totals = TotalsOf(rows, chosen);
  totals.samples = batch.records();
  TextTotals& texts = totals.facts.Edit<TextTotals>();
  texts = of_all;
  texts.documents = batch.texts();
  return totals;
}

// Scores or cosines of all texts, and what the data says of them.
struct RetrievalEvaluation::Evaluated {
  RankingMetrics ranking;
  LabelMetrics labels;
  std::vector<double> predicted, wanted;
  double loss = 0, records = 0;

  explicit Evaluated(size_t count) : labels(count) {}
};

RetrievalEvaluation::RetrievalEvaluation(Session& session)
    : session_(session),
      how_(ObjectiveOptionsOf(session.config()).texts),
      of_vectors_(HeadOf(session.config()) == HeadKind::kVector),
      numbers_(session) {}

// Documents of other records are candidates, too, where they are negatives in training; those equal to the positive are
// none.
RankedQuery RetrievalEvaluation::CandidatesOf(const TextBatch& batch, int64_t record,
                                              std::span<const float> cosines) const {
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

void RetrievalEvaluation::AddVectors(const TextBatch& batch, const at::Tensor& vectors, Evaluated& so_far) const {
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
void RetrievalEvaluation::AddScores(const TextBatch& batch, const at::Tensor& numbers, Evaluated& so_far) const {
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

void RetrievalEvaluation::EvaluateBatch(const RowSource& rows, std::span<const int64_t> chosen, Evaluated& so_far) {
  const TextBatch batch = TextBatchOf(rows, chosen);
  const PassOptions options{.objective = &numbers_.objective(),
                            .totals = TextTotalsOf(batch, numbers_.totals(), rows, chosen)};
  double loss = 0;
  const std::vector<PassInput> inputs = MakePassInputs(rows, chosen, ShapeOf(session_));
  const at::Tensor numbers = numbers_.Of(inputs, options, batch.firsts, of_vectors_ ? nullptr : &loss);
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

Evaluation RetrievalEvaluation::Run(const RowSource& rows) {
  const int64_t global_batch = session_.config().run().global_batch();
  const bool labelled = FactsOf(session_.config()).records == Records::kLabelled;
  Evaluated all(labelled ? static_cast<size_t>(numbers_.of_each()) : 0);
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
