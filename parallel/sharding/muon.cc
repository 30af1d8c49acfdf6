#include "parallel/sharding/muon.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/plan/file_pieces.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

constexpr double kQuinticA = 3.4445, kQuinticB = -4.7750, kQuinticC = 2.0315;  // as published
constexpr int kNewtonSchulzSteps = 5;
constexpr double kLeastNorm = 1e-7, kRmsOfAdamW = 0.2;

at::Tensor BoxOf(const at::Tensor& whole, const Box& box) {
  at::Tensor view = whole;
  for (size_t dim = 0; dim < box.extent.size(); ++dim) {
    view = view.narrow(static_cast<int64_t>(dim), box.offset[dim], box.extent[dim]);
  }
  return view;
}

// A file's matrix, and where this rank's share has elements of it.
struct Matrix {
  struct Piece {
    at::Tensor of_share;
    Box box;
    bool owned;
  };
  Shape shape;
  std::vector<Piece> pieces;
  at::Tensor whole = {};
};

// The matrices of the bucket in the same order on every rank.
std::vector<Matrix> MatricesOf(const Bucket& bucket, const at::Tensor& direction) {
  std::vector<Matrix> matrices;
  std::map<const HfTensor*, size_t> index;
  for (const Weights::Entry* entry : bucket.entries()) {
    if (!TakesMuon(entry->parameter, bucket.layer())) continue;
    for (const HfTensor& tensor : entry->parameter.hf) {
      index[&tensor] = matrices.size();
      matrices.push_back({.shape = tensor.shape, .pieces = {}});
    }
  }
  for (const FlatPart& part : bucket.parts()) {
    const Parameter& parameter = bucket.entries()[part.parameter]->parameter;
    if (!TakesMuon(parameter, bucket.layer())) continue;
    const Shard shard = bucket.ShardOf(part, "direction", DType::kFp32, direction.data_ptr());
    for (const FilePiece& piece : FilePieces(parameter, shard)) {
      const int64_t offset = direction.storage_offset() + part.offset + piece.offset;
      matrices.at(index.at(piece.tensor))
          .pieces.push_back({direction.as_strided(piece.box.extent, piece.strides, offset), piece.box, piece.replica == 0});
    }
  }
  return matrices;
}

}  // namespace

bool TakesMuon(const Parameter& parameter, const std::string& layer) {
  const std::string& name = parameter.declaration.name;
  if (layer == "embedding" || name.ends_with(".logits.weight") || name.ends_with(".score.weight")) return false;
  return !parameter.hf.empty() && std::ranges::all_of(parameter.hf, [](const HfTensor& tensor) {
    return tensor.shape.size() == 2;
  });
}

at::Tensor Orthogonalised(const at::Tensor& matrix) {
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;
  x = x / x.norm().clamp_min(kLeastNorm);
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    const at::Tensor gram = at::mm(x, x.t());
    x = kQuinticA * x + at::mm(kQuinticB * gram + kQuinticC * at::mm(gram, gram), x);
  }
  const auto larger = static_cast<double>(std::max(matrix.size(0), matrix.size(1)));
  return (tall ? x.t() : x) * (kRmsOfAdamW * std::sqrt(larger));
}

void OrthogonaliseShares(const Bucket& bucket, const at::Tensor& direction, Communicator& stage) {
  std::vector<Matrix> matrices = MatricesOf(bucket, direction);
  for (Matrix& matrix : matrices) {
    matrix.whole = at::zeros(matrix.shape, direction.options());
    for (const Matrix::Piece& piece : matrix.pieces) {
      if (piece.owned) BoxOf(matrix.whole, piece.box).copy_(piece.of_share);
    }
    AllReduce(matrix.whole, stage);
  }
  for (size_t i = 0; i < matrices.size(); ++i) {
    at::Tensor& whole = matrices[i].whole;
    const bool computes = static_cast<int>(i) % stage.size() == stage.rank();
    whole = computes ? Orthogonalised(whole).contiguous() : at::zeros_like(whole);
  }
  for (const Matrix& matrix : matrices) {
    AllReduce(matrix.whole, stage);
    for (const Matrix::Piece& piece : matrix.pieces) at::Tensor(piece.of_share).copy_(BoxOf(matrix.whole, piece.box));
  }
}

}  // namespace trireme
