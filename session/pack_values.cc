#include "session/pack_values.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/packing/e4m3.h"
#include "core/packing/pack_codes.h"

namespace trireme {
namespace {

constexpr int64_t kPieceElements = 8 << 20;  // of a matrix that are in memory at a time, in fp32

// The rows of one matrix of the files, in pieces that begin with a block.
class PiecewiseMatrix {
 public:
  PiecewiseMatrix(const HfTensor& matrix, const PackedStorage& storage, at::ScalarType type, const BoxReader& read)
      : matrix_(matrix),
        in_half_(storage.kind == PackedStorage::Kind::kInt8),
        type_(type),
        read_(read),
        rows_(RowsOf(matrix)),
        columns_(matrix.shape.back()),
        block_(storage.BlockOf(columns_)) {
    const int64_t unit = block_ / std::gcd(block_, columns_);
    piece_ = std::max(kPieceElements / columns_ / unit, int64_t{1}) * unit;
  }

  int64_t block() const { return block_; }

  template <typename Work>
  void ForEachPiece(const Work& work) {
    for (int64_t first = 0; first < rows_; first += piece_) work(Rows(first, std::min(piece_, rows_ - first)));
  }

 private:
  static int64_t RowsOf(const HfTensor& matrix) { return Elements(matrix.shape) / matrix.shape.back(); }

  MatrixRows Rows(int64_t first, int64_t count) {
    if (!values_.defined() || first_ != first) {  // a matrix of one piece is read once
      Box box = matrix_.box;
      box.offset[box.offset.size() - 2] += first;
      box.extent[box.extent.size() - 2] = count;
      const at::Tensor local = at::empty(box.extent, type_);
      read_(box, local);
      values_ = in_half_ ? InHalf(local) : local.to(at::kFloat);
      first_ = first;
    }
    return {.first = first, .values = {values_.const_data_ptr<float>(), static_cast<size_t>(values_.numel())}};
  }

  // As bitsandbytes rounds before it packs 8 bits.
  at::Tensor InHalf(const at::Tensor& local) const {
    at::Tensor values = local.to(at::kHalf).to(at::kFloat);
    if (values.isfinite().all().item<bool>()) return values;
    throw InputError("model.quantise int8: '", matrix_.name,
                     "' has weights beyond 65504, the largest of fp16; use nf4, or list it in ",
                     "model.quantise_except");
  }

  const HfTensor& matrix_;
  const bool in_half_;
  const at::ScalarType type_;
  const BoxReader& read_;
  const int64_t rows_, columns_, block_;
  int64_t piece_ = 0, first_ = 0;
  at::Tensor values_;
};

// Codes of whole bytes by all threads, a few rows each; halves of a byte may belong to two rows.
void PackPiece(const PackedPart& part, const PackedStorage& storage, const MatrixRows& rows,
               const std::vector<float>& scales, uint8_t* bytes) {
  if (!storage.has_row_scales()) return PackRows(part, storage, rows, scales, bytes);
  const auto columns = static_cast<size_t>(part.matrix_columns);
  const auto count = static_cast<int64_t>(rows.values.size() / columns);
  at::parallel_for(0, count, /*grain_size=*/16, [&](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin) * columns, size = static_cast<size_t>(end - begin) * columns;
    PackRows(part, storage, {rows.first + begin, rows.values.subspan(first, size)}, scales, bytes);
  });
}

// All parts of one matrix.
void PackMatrix(PiecewiseMatrix& matrix, const PackedStorage& storage, const std::vector<const PackedPart*>& parts,
                uint8_t* bytes) {
  std::vector<float> scales;
  matrix.ForEachPiece([&](const MatrixRows& rows) { AppendBlockScales(rows.values, matrix.block(), scales); });
  if (storage.kind == PackedStorage::Kind::kFp8) {
    for (float& scale : scales) scale = Fp8RowScale(scale);
  }
  matrix.ForEachPiece([&](const MatrixRows& rows) {
    for (const PackedPart* part : parts) PackPiece(*part, storage, rows, scales, bytes);
  });
  if (!storage.nested) {
    for (const PackedPart* part : parts) StoreScales(*part, storage, scales, bytes);
    return;
  }
  const NestedScales nested = NestScales(scales, MeanOfScales(scales));
  for (const PackedPart* part : parts) StoreScales(*part, storage, nested, bytes);
}

std::string BlocksText(const PackedStorage& storage) {
  if (storage.has_row_scales()) return "";
  return Concat(", blocks of ", storage.block, storage.nested ? "" : " without nested scales");
}

}  // namespace

void PackValues(const Weights::Entry& entry, const BoxReader& read) {
  const at::NoGradGuard no_graph;
  PackedWeight& packed = *entry.weight.packed;
  const PackedParts& all = packed.parts();
  const at::Tensor host = packed.bytes.is_cpu() ? packed.bytes : at::zeros({all.bytes}, at::kByte);
  for (const HfTensor& tensor : entry.parameter.hf) {
    std::vector<const PackedPart*> parts;
    for (const PackedPart& part : all.parts) {
      if (part.name == tensor.name) parts.push_back(&part);
    }
    if (parts.empty()) continue;
    PiecewiseMatrix matrix(tensor, all.storage, packed.type(), read);
    PackMatrix(matrix, all.storage, parts, host.mutable_data_ptr<uint8_t>());
  }
  if (!packed.bytes.is_cpu()) packed.bytes.copy_(host);
}

// By one thread: the sum of several depends on how many there are.
float MeanOfScales(std::vector<float>& scales) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const float mean =
      at::from_blob(scales.data(), {static_cast<int64_t>(scales.size())}, at::kFloat).mean().item<float>();
  at::set_num_threads(threads);
  return mean;
}

bool TakePacked(const Weights::Entry& entry, const TensorSource& source) {
  PackedWeight& packed = *entry.weight.packed;
  const PackedParts& all = packed.parts();
  const at::Tensor host = packed.bytes.is_cpu() ? packed.bytes : at::zeros({all.bytes}, at::kByte);
  auto* bytes = host.mutable_data_ptr<uint8_t>();
  for (const PackedPart& part : all.parts) {
    const std::optional<PackedTensor> tensor = source.FindPacked(part.name);
    if (!tensor) return false;
    if (tensor->storage != all.storage || tensor->shape != Shape{part.matrix_rows, part.matrix_columns}) {
      throw InputError(source.FileOf(part.name).string(), ": '", part.name, "' is packed as ", ShapeText(tensor->shape),
                       " in ", Name(tensor->storage.kind), BlocksText(tensor->storage),
                       "; set model.quantise, quantise_block and quantise_nested so, or leave them out to decode it");
    }
    CopyCodes(part, tensor->codes, bytes);
    if (all.storage.nested) {
      StoreScales(part, all.storage, tensor->nested, bytes);
    } else {
      StoreScales(part, all.storage, tensor->scales, bytes);
    }
  }
  if (!packed.bytes.is_cpu()) packed.bytes.copy_(host);
  return true;
}

}  // namespace trireme
