#include "train/step/text_numbers.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "data/rows.h"
#include "parallel/objectives/objectives.h"
#include "parallel/tensor/collectives.h"
#include "stages/objective_options.h"
#include "stages/retrieval_check.h"
#include "text/tokenizer.h"
#include "train/step/batches.h"

namespace trireme {
namespace {

int64_t TokenOf(const Tokenizer& tokenizer, const std::string& text, const char* key) {
  const std::vector<int32_t> ids = tokenizer.Encode(text).ids;
  if (ids.size() == 1) return ids[0];
  throw InputError(key, ": '", text, "' is ", ids.size(), " tokens of this tokenizer; wanted one");
}

TextTotals TotalsOfAll(const Config& config) {
  TextTotals totals;
  if (!IsGenerative(config)) return totals;
  const Tokenizer tokenizer(config.model().path());
  totals.positive_token = TokenOf(tokenizer, config.retrieval().positive_token(), "retrieval.positive_token");
  totals.negative_token = TokenOf(tokenizer, config.retrieval().negative_token(), "retrieval.negative_token");
  return totals;
}

int64_t NumbersOfEach(const Session& session) {
  const auto& head = std::get<HeadSpec>(session.graph().layers.back().spec);
  if (HeadOf(session.config()) == HeadKind::kVector) return head.hidden;
  return head.scores ? head.vocabulary : 1;
}

// Texts side by side: in so many rows, of about equal numbers of tokens.
struct PackedTexts {
  std::vector<Row> rows;
  std::vector<int64_t> firsts = {0};
  std::vector<int64_t> places;  // of each text
};

PackedTexts Packed(const std::vector<std::vector<int64_t>>& texts, size_t count, const std::vector<float>& values) {
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return texts[a].size() > texts[b].size(); });
  PackedTexts packed{.rows = std::vector<Row>(std::min(count, texts.size())), .places = {}};
  std::vector<std::vector<size_t>> members(packed.rows.size());
  for (const size_t text : order) {
    const auto shortest =
        std::ranges::min_element(packed.rows, {}, [](const Row& row) { return row.input_ids.size(); });
    Row& row = *shortest;
    members[static_cast<size_t>(shortest - packed.rows.begin())].push_back(text);
    row.starts.push_back(std::ssize(row.input_ids));
    row.input_ids.insert(row.input_ids.end(), texts[text].begin(), texts[text].end());
    row.values.insert(row.values.end(), values.begin(), values.end());
  }
  packed.places.resize(texts.size());
  for (size_t i = 0; i < packed.rows.size(); ++i) {
    packed.rows[i].labels.assign(packed.rows[i].input_ids.size(), kNotTrained);
    for (size_t k = 0; k < members[i].size(); ++k) {
      packed.places[members[i][k]] = packed.firsts.back() + static_cast<int64_t>(k);
    }
    packed.firsts.push_back(packed.firsts.back() + std::ssize(members[i]));
  }
  return packed;
}

// Losses are computed with the numbers and read by nobody: labels that every one of them takes.
std::vector<float> AnyLabels(const Config& config, int64_t numbers) {
  if (FactsOf(config).records == Records::kRanked) return {1.0F};
  const bool several =
      FactsOf(config).records == Records::kLabelled && config.retrieval().problem() != PROBLEM_SINGLE_LABEL;
  return std::vector<float>(several ? static_cast<size_t>(numbers) : 1, 0.0F);
}

}  // namespace

std::vector<int64_t> TextPlaces(const PassInput& input, std::span<const int64_t> firsts) {
  std::vector<int64_t> places;
  int64_t row = -1, within = 0;
  for (const int64_t sample : input.samples) {
    within = RowOf(sample) == row ? within + 1 : 0;
    row = RowOf(sample);
    places.push_back(firsts[static_cast<size_t>(row)] + within);
  }
  return places;
}

TextNumbers::TextNumbers(Session& session)
    : session_(session),
      objective_(MakeObjective(ObjectiveOf(session.config()), ObjectiveOptionsOf(session.config()))),
      of_each_(NumbersOfEach(session)),
      totals_(TotalsOfAll(session.config())) {}

at::Tensor TextNumbers::Of(const std::vector<PassInput>& inputs, PassOptions options, std::span<const int64_t> firsts,
                           double* loss) const {
  options.differentiate = false;
  options.wants.sequence_scores = true;
  PassBatch forward(inputs, options);
  session_.RunForward(forward);
  if (loss != nullptr) *loss = session_.ReduceSums(forward.result(), options.objective->SumNames(0)).at("loss");
  const at::Tensor table =
      at::zeros({firsts.back(), of_each_}, at::TensorOptions(at::kFloat).device(session_.tensors().torch()));
  // Of the ranks that have the same rows, one tells.
  const bool speaks = session_.Coordinate("tp") == 0 && session_.Coordinate("cp") == 0;
  for (int i = 0; i < forward.size() && speaks; ++i) {
    const at::Tensor& found = forward.result().outputs[static_cast<size_t>(i)].sequence_scores;
    if (!found.defined() || found.numel() == 0) continue;
    const at::Tensor places = at::tensor(TextPlaces(forward.input(i), firsts), at::kLong).to(table.device());
    table.index_copy_(0, places, found.view({-1, of_each_}));
  }
  AllReduce(table, session_.world());
  return table;
}

std::vector<float> TextNumbers::OfTexts(const std::vector<std::vector<int64_t>>& texts) const {
  if (texts.empty()) return {};
  BatchShape shape = ShapeOf(session_);
  shape.micro_batch = 1;
  const Mesh& dense = session_.plan().grids.dense;
  const auto rows = static_cast<size_t>(dense.Size("dp")) * static_cast<size_t>(dense.Size("pp"));
  const PackedTexts packed = Packed(texts, rows, AnyLabels(session_.config(), of_each_));
  const RowList list(packed.rows);
  const std::vector<int64_t> all = AllRows(list);
  PassOptions options{.objective = objective_.get(), .totals = TotalsOf(list, all)};
  options.totals.samples = std::ssize(texts);
  TextTotals& totals = options.totals.facts.Edit<TextTotals>();
  totals = totals_;
  totals.documents = std::ssize(texts);
  const at::Tensor found =
      Of(MakePassInputs(list, all, shape), options, packed.firsts, nullptr).to(at::kCPU).contiguous();
  const float* numbers = found.data_ptr<float>();
  std::vector<float> by_text;
  by_text.reserve(static_cast<size_t>(found.numel()));
  for (const int64_t place : packed.places) {
    by_text.insert(by_text.end(), numbers + place * of_each_, numbers + (place + 1) * of_each_);
  }
  return by_text;
}

}  // namespace trireme
