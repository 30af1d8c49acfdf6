#include "parallel/sharding/gradient_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>

#include "core/plan/file_pieces.h"
#include "core/tensor/device_copies.h"
#include "ops/flat/gradient_norm.h"
#include "parallel/tensor/collectives.h"

namespace trireme {

namespace {

// The name in the model's files: for a fused parameter, such as q|k|v, the tensor that contains the element.
std::string NameOfNotFinite(const Bucket& bucket, const FlatPart& part) {
  const Weights::Entry& entry = *bucket.entries()[part.parameter];
  at::Tensor host = bucket.shard_gradient().cpu();
  const Shard shard = bucket.ShardOf(part, "gradient", DType::kFp32, host.data_ptr<float>());
  for (const FilePiece& piece : FilePieces(entry.parameter, shard)) {
    const at::Tensor values =
        at::from_blob(static_cast<float*>(shard.data) + piece.offset, piece.box.extent, piece.strides, at::kFloat);
    if (!values.isfinite().all().item<bool>()) return piece.tensor->name;
  }
  return entry.weight.name;
}

}  // namespace

// Gathered and summed here, since HCCL does not reduce fp64.
double NormOverRanks(const at::Tensor& squares, Communicator& world) {
  const at::Tensor all = at::empty({world.size()}, squares.options());
  StartAllGather(squares, all, world).WaitOnHost();
  return std::sqrt(DownloadComputed(all).to(at::kDouble).sum().item<double>());
}

double ClipScale(double norm, double clip) { return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0; }

const std::vector<Piece>& GradientNorm::PiecesOf(const Bucket& bucket) {
  const auto [place, fresh] = pieces_.try_emplace(&bucket);
  if (!fresh) return place->second;
  auto* data = bucket.shard_gradient().data_ptr<float>();
  std::vector<Piece> pieces;
  for (const FlatPart& part : bucket.parts()) {
    for (Piece& piece : JoinIfDense(OwnedPieces(bucket.ShardOf(part, "gradient", DType::kFp32, data), part.offset))) {
      pieces.push_back(std::move(piece));
    }
  }
  return place->second = MergeRuns(pieces);
}

void GradientNorm::AddValues(const Bucket& bucket, std::vector<at::Tensor>& values) {
  for (const Piece& piece : PiecesOf(bucket)) values.push_back(View(bucket.shard_gradient(), piece).contiguous());
}

at::Tensor GradientNorm::SumOfSquares(at::Device device) {
  std::vector<at::Tensor> values;
  for (const Bucket* bucket : buckets_) AddValues(*bucket, values);
  return SumOfSquaresTensor(values, device);
}

at::Tensor GradientNorm::SumOfSquares(const Bucket& bucket, at::Device device) {
  std::vector<at::Tensor> values;
  AddValues(bucket, values);
  return SumOfSquaresTensor(values, device);
}

std::string GradientNorm::FirstNotFinite() const {
  for (const Bucket* bucket : buckets_) {
    for (const FlatPart& part : bucket->parts()) {
      const at::Tensor values = bucket->shard_gradient().narrow(0, part.offset, part.elements.size());
      if (values.isfinite().all().item<bool>()) continue;
      const char* kind = values.isnan().any().item<bool>() ? " (nan)" : " (inf)";
      return NameOfNotFinite(*bucket, part) + kind;
    }
  }
  return "";
}

}  // namespace trireme
