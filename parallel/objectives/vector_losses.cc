#include "parallel/objectives/vector_losses.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "core/base/error.h"

namespace trireme {
namespace {

// Indices into the texts, and whose they are.
struct Compared {
  at::Tensor anchors;                    // [records] int64
  at::Tensor documents;                  // [documents] int64
  at::Tensor owners;                     // [documents] int64: the record that each belongs to
  at::Tensor positives;                  // [records] int64: each record's first document, among the documents
  at::Tensor values;                     // [documents] fp32
  at::Tensor contents, anchor_contents;  // [documents], [records] int64

  Compared(const TextBatch& batch, at::Device device) {
    std::vector<int64_t> anchor, document, owner, positive, content, anchor_content;
    std::vector<double> value;
    for (int64_t record = 0; record < batch.records(); ++record) {
      const auto first = static_cast<size_t>(batch.firsts[static_cast<size_t>(record)]);
      const auto end = static_cast<size_t>(batch.firsts[static_cast<size_t>(record) + 1]);
      anchor.push_back(static_cast<int64_t>(first));
      anchor_content.push_back(static_cast<int64_t>(batch.contents[first]));
      positive.push_back(std::ssize(document));
      for (size_t text = first + 1; text < end; ++text) {
        document.push_back(static_cast<int64_t>(text));
        owner.push_back(record);
        value.push_back(batch.values[text]);
        content.push_back(static_cast<int64_t>(batch.contents[text]));
      }
    }
    const auto on_device = [&](const std::vector<int64_t>& list) { return at::tensor(list, at::kLong).to(device); };
    anchors = on_device(anchor);
    documents = on_device(document);
    owners = on_device(owner);
    positives = on_device(positive);
    contents = on_device(content);
    anchor_contents = on_device(anchor_content);
    values = at::tensor(value, at::kDouble).to(at::kFloat).to(device);
  }
};

// Rows of length 1.
at::Tensor Unit(const at::Tensor& vectors) { return vectors / vectors.norm(2, {1}, /*keepdim=*/true).clamp_min(1e-12); }

// What InfoNCE leaves out of a block of cosines, [records, any]: texts nearer to the anchor than its positive by more
// than the margin, and those equal to it. Beside what `never` says: [records, any] bool.
at::Tensor LeftOut(const at::Tensor& cosines, const at::Tensor& never, const at::Tensor& equal,
                   const at::Tensor& nearest, const TextLossOptions& options) {
  if (!options.mask_false_negatives) return never;
  const at::Tensor near = cosines.detach().gt(nearest + options.false_negative_margin);
  return never.logical_or(near).logical_or(equal);
}

at::Tensor InfoNce(const at::Tensor& unit, const Compared& compared, const TextLossOptions& options) {
  const at::Tensor anchors = unit.index_select(0, compared.anchors),
                   documents = unit.index_select(0, compared.documents);
  const at::Tensor records = at::arange(anchors.size(0), compared.owners.options()).unsqueeze(1);  // [records, 1]
  const at::Tensor positive = compared.positives.unsqueeze(1);                                     // [records, 1]
  const at::Tensor own = compared.owners.unsqueeze(0).eq(records);  // [records, documents]
  const at::Tensor is_positive = at::arange(documents.size(0), compared.owners.options()).unsqueeze(0).eq(positive);
  const at::Tensor positive_contents = compared.contents.index_select(0, compared.positives).unsqueeze(1);
  const at::Tensor same_document = compared.contents.unsqueeze(0).eq(positive_contents).logical_and(own.logical_not());

  const at::Tensor cosines = at::mm(anchors, documents.t());
  const at::Tensor nearest = cosines.detach().gather(1, positive);  // [records, 1]
  const at::Tensor never = options.in_batch ? at::zeros_like(own) : own.logical_not();
  const at::Tensor out =
      LeftOut(cosines, never, same_document, nearest, options).logical_and(is_positive.logical_not());
  std::vector<at::Tensor> blocks = {cosines.masked_fill(out, -INFINITY)};
  if (options.query_query) {
    const at::Tensor queries = at::mm(anchors, anchors.t());
    const at::Tensor itself = at::eye(anchors.size(0), own.options());
    const at::Tensor equal = compared.anchor_contents.unsqueeze(0).eq(compared.anchor_contents.unsqueeze(1));
    blocks.push_back(queries.masked_fill(LeftOut(queries, itself, equal, nearest, options), -INFINITY));
  }
  if (options.document_document) {
    const at::Tensor pairs = at::mm(documents.index_select(0, compared.positives), documents.t());
    blocks.push_back(pairs.masked_fill(LeftOut(pairs, is_positive, same_document, nearest, options), -INFINITY));
  }
  const at::Tensor log_probs = at::log_softmax(at::cat(blocks, 1) / options.temperature, 1);
  return -log_probs.gather(1, positive).mean();
}

// Of each document and its anchor.
at::Tensor PairCosines(const at::Tensor& unit, const Compared& compared) {
  const at::Tensor anchors = unit.index_select(0, compared.anchors.index_select(0, compared.owners));
  return (anchors * unit.index_select(0, compared.documents)).sum(1);
}

at::Tensor Cosent(const at::Tensor& cosines, const at::Tensor& values, const TextLossOptions& options) {
  const at::Tensor scaled = cosines / options.temperature;
  const at::Tensor above = scaled.unsqueeze(1) - scaled.unsqueeze(0);  // [lower, higher]
  const at::Tensor ordered = values.unsqueeze(1).lt(values.unsqueeze(0));
  const at::Tensor wrong = above.masked_fill(ordered.logical_not(), -INFINITY).flatten();
  return at::logsumexp(at::cat({at::zeros({1}, wrong.options()), wrong}), 0);
}

at::Tensor Contrastive(const at::Tensor& cosines, const at::Tensor& values, const TextLossOptions& options) {
  const at::Tensor distance = 1 - cosines, apart = at::relu(options.margin - distance);
  return (values * distance.square() + (1 - values) * apart.square()).mean() / 2;
}

// Positive pairs farther away than the nearest negative one, and negative ones nearer than the farthest positive one.
at::Tensor OnlineContrastive(const at::Tensor& cosines, const at::Tensor& values, const TextLossOptions& options) {
  const at::Tensor distance = 1 - cosines, like = values.gt(0.5);
  const at::Tensor together = distance.masked_select(like), apart = distance.masked_select(like.logical_not());
  at::Tensor loss = distance.sum() * 0;
  const bool some = together.numel() > 0, others = apart.numel() > 0;
  // As in sentence-transformers, where without a pair of the other kind the bound is the own kind's mean.
  if (others) {
    const at::Tensor bound = some ? together.max() : apart.mean();
    const at::Tensor hard = apart.masked_select(apart.lt(bound.detach()));
    loss = loss + at::relu(options.margin - hard).square().sum();
  }
  if (some) {
    const at::Tensor bound = others ? apart.min() : together.mean();
    loss = loss + together.masked_select(together.gt(bound.detach())).square().sum();
  }
  return loss;
}

at::Tensor LossOf(const at::Tensor& vectors, const Compared& compared, const TextLossOptions& options) {
  const at::Tensor unit = Unit(vectors);
  if (options.loss == VectorLoss::kInfoNce) return InfoNce(unit, compared, options);
  const at::Tensor cosines = PairCosines(unit, compared);
  switch (options.loss) {
    case VectorLoss::kInfoNce:
    case VectorLoss::kCosine:
      return (cosines - compared.values).square().mean();
    case VectorLoss::kCosent:
      return Cosent(cosines, compared.values, options);
    case VectorLoss::kContrastive:
      return Contrastive(cosines, compared.values, options);
    case VectorLoss::kOnlineContrastive:
      return OnlineContrastive(cosines, compared.values, options);
  }
  return {};
}

at::Tensor LossOfSizes(const at::Tensor& vectors, const Compared& compared, const TextLossOptions& options) {
  if (options.matryoshka.empty()) return LossOf(vectors, compared, options);
  at::Tensor loss = at::zeros({}, vectors.options());
  for (size_t i = 0; i < options.matryoshka.size(); ++i) {
    const int64_t size = options.matryoshka[i];
    TRIREME_CHECK(size <= vectors.size(1)) << "a Matryoshka size of " << size << " in " << vectors.size(1);
    const double weight = options.matryoshka_weights.empty() ? 1 : options.matryoshka_weights[i];
    loss = loss + weight * LossOf(vectors.narrow(1, 0, size), compared, options);
  }
  return loss;
}

}  // namespace

DifferentiatedVectors LossOfVectors(const at::Tensor& vectors, const TextBatch& batch, const TextLossOptions& options,
                                    bool differentiate) {
  TRIREME_CHECK(vectors.size(0) == batch.texts()) << vectors.size(0) << " vectors of " << batch.texts() << " texts";
  const Compared compared(batch, vectors.device());
  const at::AutoGradMode graph(differentiate);
  const at::Tensor leaf = vectors.detach().requires_grad_(differentiate);
  const at::Tensor loss = LossOfSizes(leaf, compared, options);
  DifferentiatedVectors found{.loss = loss.item<double>()};
  if (differentiate) found.by_vector = torch::autograd::grad({loss}, {leaf})[0];
  return found;
}

at::Tensor CosinesOf(const at::Tensor& vectors, const TextBatch& batch) {
  const Compared compared(batch, vectors.device());
  const at::Tensor unit = Unit(vectors);
  return at::mm(unit.index_select(0, compared.anchors), unit.index_select(0, compared.documents).t())
      .to(at::kCPU)
      .contiguous();
}

}  // namespace trireme
