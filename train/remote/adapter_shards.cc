#include "train/remote/adapter_shards.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/plan/adapter.h"
#include "core/tensor/dtype.h"
#include "parallel/graph/parameters.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

constexpr char kA[] = ".lora_A.", kB[] = ".lora_B.";

bool IsA(const std::string& name) {
  const bool is_a = name.find(kA) != std::string::npos;
  TRIREME_CHECK(is_a || name.find(kB) != std::string::npos) << name << ": is no tensor of an adapter";
  return is_a;
}

// The part of the piece within the model's rank; undefined: there is none.
at::Tensor WithinRank(const AdapterPiece& piece, const at::Tensor& numbers, int64_t rank) {
  const auto dim = static_cast<int64_t>(piece.rank_dim());
  const at::Tensor view = piece.In(numbers);
  const int64_t size = std::min(rank - piece.box.offset[static_cast<size_t>(dim)], view.size(dim));
  return size <= 0 ? at::Tensor() : view.narrow(dim, 0, size);
}

// Every element's number is that of its position in the full tensor.
void DrawUniform(const AdapterPiece& piece, const at::Tensor& view, uint64_t seed) {
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

at::Tensor BoxOf(at::Tensor whole, const AdapterPiece& piece, const at::Tensor& part) {
  for (size_t dim = 0; dim < piece.box.offset.size(); ++dim) {
    whole = whole.narrow(static_cast<int64_t>(dim), piece.box.offset[dim], part.size(static_cast<int64_t>(dim)));
  }
  return whole;
}

}  // namespace

at::Tensor AdapterPiece::In(const at::Tensor& numbers) const {
  return numbers.narrow(0, first, Elements(box.extent)).view(box.extent);
}

at::Tensor AdapterPiece::InShard(const at::Tensor& shard) const {
  return shard.as_strided(box.extent, strides, shard.storage_offset() + offset);
}

AdapterShards::AdapterShards(Session& session, int64_t max_rank, int64_t slots)
    : session_(session), max_rank_(max_rank), slots_(slots), pieces_(static_cast<size_t>(slots)) {
  for (Bucket* bucket : session.model().buckets()) {
    if (!bucket->trained()) continue;
    for (const Weights::Entry* entry : bucket->entries()) {
      TRIREME_CHECK(entry->parameter.added) << entry->weight.name << ": is trained, but is no LoRA adapter";
    }
    buckets_.push_back(bucket);
    float nothing = 0;  // offsets are asked for, no memory is read
    for (const FlatPart& part : bucket->parts()) {
      const Shard shard = bucket->ShardOf(part, "adapter", DType::kFp32, &nothing);
      for (FilePiece& piece : FilePieces(bucket->entries()[part.parameter]->parameter, shard)) {
        piece.offset += part.offset;
        AddPieces(buckets_.size() - 1, piece);
      }
    }
  }
}

// A box of the session's tensor may reach over several slots.
void AdapterShards::AddPieces(size_t bucket, const FilePiece& piece) {
  const std::string& name = piece.tensor->name;
  AdapterPiece whole{.name = name,
                     .is_a = IsA(name),
                     .attention = IsAttention(name),
                     .inputs = IsA(name) ? piece.tensor->shape.back() : 0,
                     .box = piece.box,
                     .owned = piece.replica == 0,
                     .bucket = bucket,
                     .offset = piece.offset,
                     .strides = piece.strides};
  const size_t dim = whole.rank_dim();
  for (int64_t slot = 0; slot < slots_; ++slot) {
    const int64_t begin = std::max(piece.box.offset[dim], slot * max_rank_);
    const int64_t end = std::min(piece.box.offset[dim] + piece.box.extent[dim], (slot + 1) * max_rank_);
    if (begin >= end) continue;
    AdapterPiece own = whole;
    own.offset += (begin - piece.box.offset[dim]) * piece.strides[dim];
    own.box.offset[dim] = begin - slot * max_rank_;
    own.box.extent[dim] = end - begin;
    std::vector<AdapterPiece>& others = pieces_[static_cast<size_t>(slot)];
    own.first = others.empty() ? 0 : others.back().first + Elements(others.back().box.extent);
    others.push_back(std::move(own));
  }
}

at::Tensor AdapterShards::Zeros(int64_t slot) const {
  const std::vector<AdapterPiece>& own = pieces(slot);
  return at::zeros({own.empty() ? 0 : own.back().first + Elements(own.back().box.extent)}, at::kFloat);
}

at::Tensor AdapterShards::Initial(const TrainedAdapters& adapters, int64_t slot) const {
  const at::Tensor numbers = Zeros(slot);
  for (const AdapterPiece& piece : pieces(slot)) {
    const at::Tensor view =
        piece.is_a && Trains(adapters, piece) ? WithinRank(piece, numbers, adapters.rank) : at::Tensor();
    if (view.defined()) DrawUniform(piece, view, adapters.seed);
  }
  return numbers;
}

at::Tensor AdapterShards::Factors(const TrainedAdapters& adapters, int64_t slot) const {
  const at::Tensor numbers = Zeros(slot);
  const double ratio = static_cast<double>(slots_ * max_rank_) / static_cast<double>(adapters.rank);
  for (const AdapterPiece& piece : pieces(slot)) {
    const at::Tensor view = Trains(adapters, piece) ? WithinRank(piece, numbers, adapters.rank) : at::Tensor();
    if (view.defined()) view.fill_(piece.is_a ? 1.0 : ratio);
  }
  return numbers;
}

at::Tensor AdapterShards::ReadFrom(const TrainedAdapters& adapters, int64_t slot, const ViewOf& view_of) const {
  const at::Tensor numbers = Zeros(slot);
  for (const AdapterPiece& piece : pieces(slot)) {
    const at::Tensor part = Trains(adapters, piece) ? WithinRank(piece, numbers, adapters.rank) : at::Tensor();
    if (!part.defined()) continue;
    const TensorView view = view_of(piece.name);
    const at::Tensor whole =
        at::from_blob(const_cast<std::byte*>(view.bytes.data()), view.shape, at::TensorOptions(ToTorch(view.dtype)));
    if (whole.dim() != part.dim() || whole.size(static_cast<int64_t>(piece.rank_dim())) != adapters.rank) {
      throw InputError(piece.name, ": is ", ShapeText(view.shape), "; wanted rank ", adapters.rank);
    }
    at::Tensor(part).copy_(BoxOf(whole, piece, part));
  }
  return numbers;
}

at::Tensor AdapterShards::Read(const TrainedAdapters& adapters, int64_t slot, const TensorSource& source) const {
  return ReadFrom(adapters, slot, [&](const std::string& name) { return source.Find(name); });
}

at::Tensor AdapterShards::Read(const TrainedAdapters& adapters, int64_t slot, const SafetensorsFile& file,
                               const std::string& prefix) const {
  return ReadFrom(adapters, slot, [&](const std::string& name) {
    const auto found = file.tensors().find(prefix + name);
    if (found == file.tensors().end()) throw InputError(file.path().string(), ": has no '", prefix, name, "'");
    return found->second;
  });
}

// Every element has one owner: a sum over the ranks assembles them, layer by layer.
std::map<std::string, at::Tensor> AdapterShards::Gather(const TrainedAdapters& adapters, int64_t slot,
                                                        const at::Tensor& numbers) const {
  std::map<std::string, std::vector<const AdapterPiece*>> mine;
  for (const AdapterPiece& piece : pieces(slot)) {
    if (piece.owned && Trains(adapters, piece)) mine[piece.name].push_back(&piece);
  }
  std::map<std::string, at::Tensor> tensors;
  for (const Layer& layer : session_.graph().layers) {
    std::vector<std::pair<std::string, Shape>> list;
    int64_t elements = 0;
    for (const Parameter& parameter : ParametersOf(session_.graph(), layer, {.size = 1})) {
      if (!parameter.trained) continue;
      for (const HfTensor& tensor : parameter.hf) {
        if (IsAttention(tensor.name) ? !adapters.attention : !adapters.mlp) continue;
        Shape shape = tensor.shape;
        shape[shape.size() - (IsA(tensor.name) ? 2 : 1)] = adapters.rank;
        elements += Elements(shape);
        list.emplace_back(tensor.name, std::move(shape));
      }
    }
    if (list.empty()) continue;
    at::Tensor flat = at::zeros({elements}, at::kFloat);
    const auto each = [&](const auto& visit) {
      int64_t first = 0;
      for (const auto& [name, shape] : list) {
        visit(name, flat.narrow(0, first, Elements(shape)).view(shape));
        first += Elements(shape);
      }
    };
    each([&](const std::string& name, const at::Tensor& whole) {
      for (const AdapterPiece* piece : mine[name]) {
        const at::Tensor part = WithinRank(*piece, numbers, adapters.rank);
        if (part.defined()) BoxOf(whole, *piece, part).copy_(part);
      }
    });
    flat = flat.to(session_.tensors().torch());
    AllReduce(flat, session_.world());
    flat = flat.cpu();
    if (session_.job().rank() != 0) continue;
    each([&](const std::string& name, const at::Tensor& whole) { tensors[kAdapterPrefix + name] = whole; });
  }
  return tensors;
}

}  // namespace trireme
