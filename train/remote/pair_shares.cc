#include "train/remote/pair_shares.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/tensor/dtype.h"
#include "train/whole_gradients.h"

namespace trireme {
namespace {

constexpr char kA[] = ".lora_A.", kB[] = ".lora_B.";

// The part of the piece within the model's rank, and where it begins in the file; undefined: there is none.
at::Tensor WithinRank(const PairPiece& piece, int64_t rank) {
  const auto dim = static_cast<int64_t>(piece.rank_dim());
  const int64_t first = piece.box.offset[static_cast<size_t>(dim)];
  const int64_t size = std::min(rank - first, piece.view.size(dim));
  return size <= 0 ? at::Tensor() : piece.view.narrow(dim, 0, size);
}

// Every element's number is that of its position in the full tensor.
void DrawUniform(const PairPiece& piece, const at::Tensor& view, uint64_t seed) {
  const RandomStream random(seed, piece.name);
  const double most = 1 / std::sqrt(static_cast<double>(piece.inputs));
  const int64_t row0 = piece.box.offset[piece.rank_dim()], column0 = piece.box.offset[piece.rank_dim() + 1];
  auto values = view.accessor<float, 2>();
  for (int64_t i = 0; i < values.size(0); ++i) {
    for (int64_t j = 0; j < values.size(1); ++j) {
      const auto index = static_cast<uint64_t>((row0 + i) * piece.inputs + column0 + j);
      values[i][j] = static_cast<float>((2 * random.Uniform(index) - 1) * most);
    }
  }
}

at::Tensor BoxOf(at::Tensor whole, const PairPiece& piece, const at::Tensor& part) {
  for (size_t dim = 0; dim < piece.box.offset.size(); ++dim) {
    whole = whole.narrow(static_cast<int64_t>(dim), piece.box.offset[dim], part.size(static_cast<int64_t>(dim)));
  }
  return whole;
}

}  // namespace

PairShares::PairShares(Session& session, int64_t max_rank) : session_(session), max_rank_(max_rank) {
  for (Bucket* bucket : session.model().buckets()) {
    if (!bucket->trained()) continue;
    for (const Weights::Entry* entry : bucket->entries()) {
      TRIREME_CHECK(entry->parameter.added) << entry->weight.name << ": is trained, but is no low-rank pair";
    }
    buckets_.push_back(bucket);
  }
}

Shares PairShares::Zeros() const {
  Shares shares;
  for (const Bucket* bucket : buckets_) shares.push_back(at::zeros({bucket->share().size()}, at::kFloat));
  return shares;
}

void PairShares::ForEachPiece(const Shares& shares, const std::function<void(const PairPiece&)>& visit) const {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    for (const FlatPart& part : buckets_[i]->parts()) {
      const Shard shard = buckets_[i]->ShardOf(part, "pair", DType::kFp32, shares[i].data_ptr());
      for (const FilePiece& piece : FilePieces(buckets_[i]->entries()[part.parameter]->parameter, shard)) {
        const std::string& name = piece.tensor->name;
        const bool is_a = name.find(kA) != std::string::npos;
        TRIREME_CHECK(is_a || name.find(kB) != std::string::npos) << name << ": is no tensor of a pair";
        visit({.name = name,
               .is_a = is_a,
               .attention = IsAttention(name),
               .inputs = is_a ? piece.tensor->shape.back() : 0,
               .box = piece.box,
               .owned = piece.replica == 0,
               .view = at::from_blob(static_cast<float*>(shard.data) + piece.offset, piece.box.extent, piece.strides, at::kFloat)});
      }
    }
  }
}

Shares PairShares::Initial(const TrainedPairs& pairs) const {
  Shares shares = Zeros();
  ForEachPiece(shares, [&](const PairPiece& piece) {
    const at::Tensor view = piece.is_a && Trains(pairs, piece) ? WithinRank(piece, pairs.rank) : at::Tensor();
    if (view.defined()) DrawUniform(piece, view, pairs.seed);
  });
  return shares;
}

Shares PairShares::Factors(const TrainedPairs& pairs) const {
  Shares shares = Zeros();
  const double ratio = static_cast<double>(max_rank_) / static_cast<double>(pairs.rank);
  ForEachPiece(shares, [&](const PairPiece& piece) {
    const at::Tensor view = Trains(pairs, piece) ? WithinRank(piece, pairs.rank) : at::Tensor();
    if (view.defined()) view.fill_(piece.is_a ? 1.0 : ratio);
  });
  return shares;
}

Shares PairShares::ReadFrom(const TrainedPairs& pairs, const ViewOf& view_of) const {
  Shares shares = Zeros();
  ForEachPiece(shares, [&](const PairPiece& piece) {
    const at::Tensor part = Trains(pairs, piece) ? WithinRank(piece, pairs.rank) : at::Tensor();
    if (!part.defined()) return;
    const TensorView view = view_of(piece.name);
    const at::Tensor whole =
        at::from_blob(const_cast<std::byte*>(view.bytes.data()), view.shape, at::TensorOptions(ToTorch(view.dtype)));
    if (whole.dim() != part.dim() || whole.size(static_cast<int64_t>(piece.rank_dim())) != pairs.rank) {
      throw InputError(piece.name, ": is ", ShapeText(view.shape), "; wanted rank ", pairs.rank);
    }
    at::Tensor(part).copy_(BoxOf(whole, piece, part));
  });
  return shares;
}

Shares PairShares::Read(const TrainedPairs& pairs, const TensorSource& source) const {
  return ReadFrom(pairs, [&](const std::string& name) { return source.Find(name); });
}

Shares PairShares::Read(const TrainedPairs& pairs, const SafetensorsFile& file, const std::string& prefix) const {
  return ReadFrom(pairs, [&](const std::string& name) {
    const auto found = file.tensors().find(prefix + name);
    if (found == file.tensors().end()) throw InputError(file.path().string(), ": has no '", prefix, name, "'");
    return found->second;
  });
}

std::map<std::string, at::Tensor> PairShares::Gather(const TrainedPairs& pairs, const Shares& shares) const {
  std::vector<Shard> shards;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    for (const FlatPart& part : buckets_[i]->parts()) {
      shards.push_back(buckets_[i]->ShardOf(part, "gradient", DType::kFp32, shares[i].data_ptr()));
    }
  }
  std::map<std::string, at::Tensor> tensors;
  for (auto& [name, whole] : GatherGradients(session_.graph(), shards, session_.world(), session_.tensors().torch())) {
    const bool is_a = name.find(kA) != std::string::npos;
    if (IsAttention(name) ? !pairs.attention : !pairs.mlp) continue;
    tensors[name] = whole.narrow(is_a ? whole.dim() - 2 : whole.dim() - 1, 0, pairs.rank).contiguous();
  }
  return tensors;
}

}  // namespace trireme
