#include "train/step/batches.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/rounding.h"
#include "core/tensor/device_copies.h"
#include "data/model_images.h"
#include "data/row_images.h"
#include "parallel/objectives/answer_facts.h"
#include "parallel/objectives/policy_facts.h"
#include "parallel/objectives/text_facts.h"
#include "parallel/pass/shared_image_positions.h"

namespace trireme {
namespace {

// More than a row has tokens, or documents.
constexpr int64_t kMostPositions = int64_t{1} << 32;

// The row's own memory as [count, elements of a patch]: nobody writes to it.
at::Tensor PatchesOf(const Row& row, int64_t count) {
  const auto elements = static_cast<int64_t>(row.patches->size()) / count;
  return at::from_blob(
      const_cast<float*>(row.patches->data()), {count, elements}, [kept = row.patches](void*) {}, at::kFloat);
}

// Where a row says where its images begin, other placeholders are text, which a model may have written: no token here.
std::vector<int64_t> TokensAsSeen(const Row& row, const ImageTokens& kind) {
  std::vector<int64_t> tokens = row.input_ids;
  if (row.images.empty()) return tokens;
  std::ranges::replace(tokens, kind.placeholder, int64_t{-1});
  for (const RowImage& image : row.images) {
    const auto begin = static_cast<std::ptrdiff_t>(image.first);
    std::copy_n(row.input_ids.begin() + begin, image.grid.tokens(kind.merge), tokens.begin() + begin);
  }
  return tokens;
}

// All tokens of the rows, before they are split over context-parallel ranks.
struct WholeRows {
  int64_t rows, length;
  at::Tensor tokens, labels, positions, real, sequence;  // [rows · length]
  at::Tensor weights, sampled;                           // undefined: none
  std::vector<Document> documents;
  std::vector<int64_t> samples;  // of each document
  AnswerFacts answers;
  std::vector<double> values;  // of documents that are no answers
  at::Tensor image_token;  // [rows · length]: which token of the images it is, -1: none; undefined: no row has images
  std::vector<ImageGrid> grids;
  std::vector<ContentDigest> contents;                        // of each image, where they are told
  std::vector<at::Tensor> patches;                            // by row with images
  std::vector<std::pair<int64_t, at::Tensor>> own_positions;  // likewise: the row, [3, tokens]
  int64_t image_tokens = 0;

  WholeRows(int64_t rows, int64_t length) : rows(rows), length(length) {
    tokens = at::zeros({rows * length}, at::kLong);
    labels = at::full({rows * length}, kNotTrained, at::kLong);
    positions = at::arange(length, at::kLong).repeat({rows});
    real = at::zeros({rows * length}, at::kBool);
    sequence = at::full({rows * length}, -1, at::kLong);
  }

  // Samples of different rows of the step are distinguished by the row's index in it.
  void Fill(int64_t index, int64_t row_of_step, const Row& row) {
    const int64_t begin = index * length, end = begin + static_cast<int64_t>(row.input_ids.size());
    std::copy(row.input_ids.begin(), row.input_ids.end(), tokens.data_ptr<int64_t>() + begin);
    // The label of a position is the token after it.
    std::copy(row.labels.begin() + 1, row.labels.end(), labels.data_ptr<int64_t>() + begin);
    real.narrow(0, begin, end - begin).fill_(true);
    if (row.starts.empty()) AddDocument(begin, end);
    int64_t origin = begin;  // of the last document that shares nothing
    for (size_t i = 0; i < row.starts.size(); ++i) {
      const int64_t first = begin + row.starts[i];
      const int64_t last = i + 1 < row.starts.size() ? begin + row.starts[i + 1] : end;
      AddDocument(first, last);
      const int64_t shared = row.shared.empty() ? 0 : row.shared[i];
      if (shared > 0) {
        documents.back().prefix = {origin, origin + shared};
      } else {
        origin = first;
      }
      positions.narrow(0, first, last - first).copy_(at::arange(shared, shared + last - first, at::kLong));
      labels[last - 1].fill_(kNotTrained);  // the next document's first token
    }
    FillByLabel(weights, row.weights, begin, 1);
    FillByLabel(sampled, row.sampled, begin, 0);
    FillAnswers(row);
    const size_t count = std::max<size_t>(row.starts.size(), 1);
    for (size_t i = 0; i < count; ++i) {
      const int64_t own = row.samples.empty() ? static_cast<int64_t>(i) : row.samples[i];
      samples.push_back(row_of_step * kMostPositions + own);
    }
  }

  // After Fill. Rows without images keep the positions that they have, three times.
  void FillImages(int64_t index, const Row& row, const ImageTokens& kind) {
    if (row.grids.empty()) return;
    if (!image_token.defined()) image_token = at::full({rows * length}, -1, at::kLong);
    const auto tokens = static_cast<int64_t>(row.input_ids.size());
    const PlacedImageTokens placed =
        PlaceImageTokens(TokensAsSeen(row, kind), DocumentLengths(row), row.shared, row.grids, kind);
    own_positions.emplace_back(index, at::tensor(placed.positions, at::kLong).view({3, tokens}));
    int64_t* token_of = image_token.data_ptr<int64_t>() + index * length;
    for (int64_t i = 0; i < tokens; ++i) {
      if (placed.image_token[i] >= 0) token_of[i] = image_tokens + placed.image_token[i];
    }
    for (const ImageGrid& grid : row.grids) image_tokens += grid.tokens(kind.merge);
    grids.insert(grids.end(), row.grids.begin(), row.grids.end());
    int64_t count = 0;
    for (const ImageGrid& grid : row.grids) count += grid.patches();
    patches.push_back(PatchesOf(row, count));
  }

  void FillContents(const Row& row) {
    for (const RowImage& image : row.images) contents.push_back(ContentOf(image));
  }

  at::Tensor ImagePositionsOfRows() const {
    const at::Tensor all = positions.unsqueeze(0).repeat({3, 1});
    for (const auto& [index, own] : own_positions) all.narrow(1, index * length, own.size(1)).copy_(own);
    return all;
  }

  void FillAnswers(const Row& row) {
    if (row.answer_tokens.empty()) values.insert(values.end(), row.values.begin(), row.values.end());
    for (size_t i = 0; i < row.answer_tokens.size(); ++i) {
      answers.tokens.push_back(row.answer_tokens[i]);
      answers.values.push_back(row.values[i]);
      const int64_t begin = row.starts[i] + 1;  // nothing predicts its first token
      const int64_t end = i + 1 < row.starts.size() ? row.starts[i + 1] : std::ssize(row.labels);
      answers.trained.push_back(std::count_if(row.labels.begin() + begin, row.labels.begin() + end,
                                              [](int64_t label) { return label != kNotTrained; }));
    }
  }

  // A label stands one position before the token that it names.
  void FillByLabel(at::Tensor& to, const std::vector<float>& values, int64_t begin, double otherwise) const {
    if (values.empty()) return;
    if (!to.defined()) to = at::full({rows * length}, otherwise, at::kFloat);
    std::copy(values.begin() + 1, values.end(), to.data_ptr<float>() + begin);
  }

  void AddDocument(int64_t begin, int64_t end) {
    sequence.narrow(0, begin, end - begin).fill_(static_cast<int64_t>(documents.size()));
    documents.push_back({begin, end});
  }

  // The same positions with the tokens `depth` later in their documents. At the end of a document there are
  // none; what is computed there reaches no other position, since attention is causal.
  WholeRows Shifted(int64_t depth) const {
    WholeRows shifted(rows, length);
    shifted.positions = positions;
    shifted.documents = documents;
    shifted.samples = samples;
    if (weights.defined()) shifted.weights = at::ones_like(weights);
    for (const Document& document : documents) {
      const int64_t count = document.end - document.begin - depth;
      if (count <= 0) continue;
      const auto move = [&](const at::Tensor& to, const at::Tensor& from, int64_t step) {
        to.narrow(0, document.begin, count).copy_(from.narrow(0, document.begin + step, count));
      };
      move(shifted.tokens, tokens, depth);
      move(shifted.labels, labels, depth);
      if (weights.defined()) move(shifted.weights, weights, depth);
      move(shifted.real, real, 0);
      move(shifted.sequence, sequence, 0);
    }
    return shifted;
  }

  // Where the last token of each document is among this rank's.
  std::vector<int64_t> LastTokens(const std::vector<int64_t>& mine) const {
    std::vector<int64_t> here(static_cast<size_t>(rows * length), -1), last;
    for (size_t i = 0; i < mine.size(); ++i) here[static_cast<size_t>(mine[i])] = static_cast<int64_t>(i);
    for (const Document& document : documents) last.push_back(here[static_cast<size_t>(document.end - 1)]);
    return last;
  }

  // Of each token's document; 1 for padding.
  at::Tensor DocumentTokens() const {
    const at::Tensor lengths = at::ones({rows * length}, at::kLong);
    for (const Document& document : documents) {
      const int64_t count = document.end - document.begin;
      lengths.narrow(0, document.begin, count).fill_(count);
    }
    return lengths;
  }

  PassInput On(const std::shared_ptr<const ContextPlan>& plan) const {
    PassInput batch{.rows = rows, .length = plan->local_length(), .context = plan, .samples = samples};
    if (!answers.tokens.empty()) batch.facts.Edit<AnswerFacts>() = answers;
    if (!values.empty()) batch.facts.Edit<TextFacts>().values = values;
    const at::Tensor mine = at::tensor(plan->LocalTokens(), at::kLong);
    batch.tokens = tokens.index_select(0, mine);
    batch.labels = labels.index_select(0, mine);
    batch.positions = positions.index_select(0, mine);
    batch.real = real.index_select(0, mine);
    batch.sequence = sequence.index_select(0, mine);
    batch.sequences = static_cast<int64_t>(documents.size());
    batch.real_tokens = real.sum().item<int64_t>();
    batch.order = mine;
    batch.document_tokens = DocumentTokens().index_select(0, mine);
    if (weights.defined()) batch.weights = weights.index_select(0, mine);
    if (sampled.defined()) batch.facts.Edit<PolicyFacts>().sampled = sampled.index_select(0, mine);
    batch.last_tokens = LastTokens(plan->LocalTokens());
    if (image_token.defined()) {
      batch.image_positions = ImagePositionsOfRows().index_select(1, mine);
      batch.images = {.patches = patches.size() == 1 ? patches.front() : at::cat(patches),
                      .grids = grids,
                      .token_of = image_token.index_select(0, mine)};
      if (contents.size() == grids.size()) batch.images.contents = contents;
    }
    return batch;
  }
};

// Row of the step and position in it, independent of neighbouring rows and padding.
at::Tensor Identities(const PassInput& batch, std::span<const int64_t> places, int64_t length) {
  const at::Tensor mine = at::tensor(batch.context->LocalTokens(), at::kLong);
  const at::Tensor rows = at::tensor(c10::ArrayRef<int64_t>(places.data(), places.size()), at::kLong);
  return rows.index_select(0, at::floor_divide(mine, length)) * kMostPositions + at::remainder(mine, length);
}

// Which of the chosen rows each of a rank's micro batches contains; the last ones may be empty.
std::vector<std::span<const int64_t>> Shares(std::span<const int64_t> chosen, const BatchShape& shape) {
  const auto total = static_cast<int64_t>(chosen.size());
  const int64_t a_round = int64_t{shape.micro_batch} * shape.data_size;
  std::vector<std::span<const int64_t>> shares;
  for (int64_t first = 0; first < total; first += a_round) {
    const int64_t begin = std::min(first + int64_t{shape.data_rank} * shape.micro_batch, total);
    shares.push_back(chosen.subspan(begin, std::min<int64_t>(shape.micro_batch, total - begin)));
  }
  return shares;
}

// places: of the rows in the step, and any for those that the micro batch lacks.
PassInput MakePassInput(std::span<const Row> rows, std::span<const int64_t> places, const BatchShape& shape) {
  int64_t length = 1;
  for (const Row& row : rows) length = std::max<int64_t>(length, static_cast<int64_t>(row.input_ids.size()));
  WholeRows whole(shape.micro_batch, RoundUp(length, shape.multiple));
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    whole.Fill(index, places[i], rows[i]);
    if (shape.images) whole.FillImages(index, rows[i], *shape.images);
    if (shape.tells_images) whole.FillContents(rows[i]);
  }
  const auto plan = std::make_shared<const ContextPlan>(whole.rows, whole.length, whole.documents, shape.context);
  PassInput input = whole.On(plan);
  if (!shape.runs_tower) input.images.patches.reset();
  input.identities = Identities(input, places, whole.length);
  for (int64_t depth = 1; depth <= shape.mtp_depths; ++depth) {
    input.mtp.push_back(whole.Shifted(depth).On(plan));
    input.mtp.back().identities = input.identities;
  }
  return input;
}

void MoveTo(at::Device device, PassInput& input) {
  input.trained = input.labels.ne(kNotTrained).nonzero().squeeze(1);
  for (at::Tensor* tensor :
       {&input.tokens, &input.labels, &input.positions, &input.trained, &input.real, &input.sequence, &input.order,
        &input.weights, &input.image_positions, &input.images.patches}) {
    if (tensor->defined()) *tensor = Upload(*tensor, device);
  }
  if (const at::Tensor sampled = input.facts.Get<PolicyFacts>().sampled; sampled.defined()) {
    input.facts.Edit<PolicyFacts>().sampled = Upload(sampled, device);
  }
  for (PassInput& shifted : input.mtp) MoveTo(device, shifted);
}

}  // namespace

BatchShape ShapeOf(const Session& session) {
  const Mesh& dense = session.plan().grids.dense;
  const int ulysses = session.plan().ulysses;
  const std::optional<ImageInputs>& images = session.graph().images;
  return {
      .micro_batch = session.config().run().micro_batch(),
      .data_rank = session.Coordinate("dp"),
      .data_size = dense.Size("dp"),
      .multiple = session.plan().row_multiple,
      .device = session.tensors().torch(),
      .context = {.ring = dense.Size("cp") / ulysses, .ulysses = ulysses, .rank = session.Coordinate("cp")},
      .images = images ? std::optional(ImageTokens{images->placeholder, images->merge, images->tile}) : std::nullopt,
      .tells_images = session.config().memory().vision_features_mb() > 0,
      .runs_tower = session.Coordinate("pp") == 0};
}

std::vector<int64_t> OwnRows(std::span<const int64_t> chosen, const BatchShape& shape) {
  std::vector<int64_t> own;
  for (const std::span<const int64_t> share : Shares(chosen, shape)) {
    own.insert(own.end(), share.begin(), share.end());
  }
  return own;
}

std::vector<PassInput> MakePassInputs(const RowSource& rows, std::span<const int64_t> chosen, const BatchShape& shape,
                                      std::span<const int64_t> places) {
  std::vector<PassInput> inputs;
  for (const std::span<const int64_t> share : Shares(chosen, shape)) {
    std::vector<Row> mine;
    for (const int64_t row : share) mine.push_back(rows.Read(row));
    std::vector<int64_t> own(static_cast<size_t>(shape.micro_batch));
    std::iota(own.begin(), own.end(), share.data() - chosen.data());
    if (!places.empty()) std::copy_n(places.begin() + own.front(), share.size(), own.begin());
    inputs.push_back(MakePassInput(mine, own, shape));
    MoveTo(shape.device, inputs.back());
  }
  return inputs;
}

std::vector<PassInput> MakePassInputs(const std::vector<Row>& rows, const BatchShape& shape) {
  std::vector<int64_t> all(rows.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return MakePassInputs(RowList(rows), all, shape);
}

int64_t RowOf(int64_t identity) { return identity / kMostPositions; }
int64_t PositionOf(int64_t identity) { return identity % kMostPositions; }

BatchTotals TotalsOf(const RowSource& rows, std::span<const int64_t> chosen) {
  BatchTotals totals;
  for (const int64_t row : chosen) {
    totals.trained += rows.Trained(row);
    totals.tokens += rows.Length(row);
  }
  return totals;
}

at::Tensor CountMtp(const std::vector<PassInput>& inputs, const BatchShape& shape) {
  const at::Tensor counts = at::zeros({shape.mtp_depths, 2}, at::TensorOptions(at::kInt).device(shape.device));
  for (const PassInput& input : inputs) {
    for (size_t depth = 0; depth < input.mtp.size(); ++depth) {
      const at::Tensor count = counts[static_cast<int64_t>(depth)];
      count[0].add_(input.mtp[depth].labels.ne(kNotTrained).sum());
      count[1].add_(input.mtp[depth].real.sum());
    }
  }
  return counts;
}

std::vector<BatchTotals> MtpTotals(const at::Tensor& counts) {
  std::vector<BatchTotals> totals;
  const int32_t* count = counts.data_ptr<int32_t>();
  for (int64_t depth = 0; depth < counts.size(0); ++depth) {
    totals.push_back({.trained = count[2 * depth], .tokens = count[2 * depth + 1]});
  }
  return totals;
}

}  // namespace trireme
