#include "parallel/sharding/gradient_norm.h"

#include <ATen/ops/from_blob.h>

#include "core/plan/file_pieces.h"
#include "ops/flat/gradient_norm.h"

namespace trireme {

namespace {

// The name in the model's files: for a fused parameter, such as q|k|v, the tensor that contains the element.
std::string NameOfNotFinite(const Bucket& bucket, const FlatPart& part) {
  const Weights::Entry& entry = *bucket.entries()[part.parameter];
  at::Tensor host = bucket.share_gradient().cpu();
  const Shard shard = bucket.ShardOf(part, "gradient", DType::kFp32, host.data_ptr<float>());
  for (const FilePiece& piece : FilePieces(entry.parameter, shard)) {
    const at::Tensor values = at::from_blob(static_cast<float*>(shard.data) + piece.offset, piece.box.extent,
                                            piece.strides, at::kFloat);
    if (!values.isfinite().all().item<bool>()) return piece.tensor->name;
  }
  return entry.weight.name;
}

}  // namespace

void GradientNorm::Plan() {
  for (Bucket* bucket : buckets_) {
    auto* data = bucket->share_gradient().data_ptr<float>();
    std::vector<Piece> pieces;
    for (const FlatPart& part : bucket->parts()) {
      for (Piece& piece :
           JoinIfDense(OwnedPieces(bucket->ShardOf(part, "gradient", DType::kFp32, data), part.offset))) {
        pieces.push_back(std::move(piece));
      }
    }
    for (Piece& piece : MergeRuns(pieces)) counted_.push_back({bucket, std::move(piece)});
  }
  planned_ = true;
}

at::Tensor GradientNorm::SumOfSquares(at::Device device) {
  if (!planned_) Plan();
  std::vector<at::Tensor> values;
  for (const Counted& counted : counted_) {
    values.push_back(View(counted.bucket->share_gradient(), counted.piece).contiguous());
  }
  return SumOfSquaresTensor(values, device);
}

std::string GradientNorm::FirstNotFinite() const {
  for (const Bucket* bucket : buckets_) {
    for (const FlatPart& part : bucket->parts()) {
      const at::Tensor values = bucket->share_gradient().narrow(0, part.offset, part.elements.size());
      if (values.isfinite().all().item<bool>()) continue;
      const char* kind = values.isnan().any().item<bool>() ? " (nan)" : " (inf)";
      return NameOfNotFinite(*bucket, part) + kind;
    }
  }
  return "";
}

}  // namespace trireme
