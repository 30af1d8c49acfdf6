#include "parallel/sharding/gradient_norm.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>

namespace trireme {
namespace {

// So few elements that a sum of their squares in fp32 is good to the last digits.
constexpr int64_t kNormChunk = 1 << 14;

// Norms of pieces of `view`, 1-dim each: together they give the norm of all.
void AppendNorms(const at::Tensor& view, std::vector<at::Tensor>& norms) {
  const int64_t in_chunks = view.dim() == 1 ? view.numel() / kNormChunk * kNormChunk : 0;
  if (in_chunks > 0) {
    const at::Tensor rows = view.narrow(0, 0, in_chunks).view({-1, kNormChunk});
    norms.push_back(at::linalg_vector_norm(rows, 2, at::IntArrayRef{1}));
  }
  if (in_chunks == view.numel()) return;
  const at::Tensor rest = in_chunks == 0 ? view : view.narrow(0, in_chunks, view.numel() - in_chunks);
  norms.push_back(at::linalg_vector_norm(rest, 2).reshape({1}));
}

}  // namespace

void GradientNorm::Plan() {
  for (Bucket* bucket : buckets_) {
    auto* data = bucket->share_gradient().data_ptr<float>();
    std::vector<Piece> pieces;
    for (const FlatPart& part : bucket->parts()) {
      for (Piece& piece : OwnedPieces(bucket->ShardOf(part, "gradient", data), part.offset)) {
        pieces.push_back(std::move(piece));
      }
    }
    for (Piece& piece : MergeRuns(pieces)) counted_.push_back({bucket, std::move(piece)});
  }
  planned_ = true;
}

double GradientNorm::SumOfSquares() {
  if (!planned_) Plan();
  std::vector<at::Tensor> norms;
  for (const Counted& counted : counted_) {
    AppendNorms(View(counted.bucket->share_gradient(), counted.piece), norms);
  }
  if (norms.empty()) return 0;
  return at::cat(norms).cpu().to(at::kDouble).square().sum().item<double>();
}

std::string GradientNorm::FirstNotFinite() const {
  for (const Bucket* bucket : buckets_) {
    for (const FlatPart& part : bucket->parts()) {
      const at::Tensor values = bucket->share_gradient().narrow(0, part.offset, part.elements.size());
      if (values.isfinite().all().item<bool>()) continue;
      const char* kind = values.isnan().any().item<bool>() ? " (nan)" : " (inf)";
      return bucket->entries()[part.parameter]->weight.name + kind;
    }
  }
  return "";
}

}  // namespace trireme
