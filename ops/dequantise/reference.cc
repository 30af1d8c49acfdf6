#include "ops/dequantise/reference.h"

#include <ATen/ATen.h>

#include <vector>

#include "core/packing/codes.h"
#include "core/packing/scales.h"

namespace trireme {
namespace {

constexpr int64_t kFloatBytes = 4;

template <typename Values>
at::Tensor OnDevice(const Values& values, const at::Tensor& like) {
  return at::tensor(at::ArrayRef<float>(values.data(), values.size()), at::kFloat).to(like.device());
}

at::Tensor Look(const at::Tensor& table, const at::Tensor& index) {
  return table.index_select(0, index.flatten()).view(index.sizes());
}

at::Tensor Quotient(const at::Tensor& x, int64_t by) { return at::div(x, by, "floor"); }

at::Tensor Floats(const at::Tensor& bytes, int64_t begin, int64_t count) {
  return bytes.narrow(0, begin, count * kFloatBytes).view(at::kFloat);
}

// [runs, run_size] the fractions that codes stand for
at::Tensor Fractions(const PackedPart& part, const PackedWeight& packed) {
  const at::Tensor pairs = packed.bytes.narrow(0, part.codes, part.runs() * part.run_code_bytes())
                               .view({part.runs(), part.run_code_bytes()})
                               .to(at::kLong);
  const at::Tensor codes =
      at::stack({Quotient(pairs, 16), at::remainder(pairs, 16)}, 2).flatten(1).narrow(1, 0, part.run_size());
  return Look(OnDevice(ValuesOfCodes(packed.parts().storage.kind), pairs), codes);
}

// Scales at their places in the part's room, of these blocks of the matrix.
at::Tensor ScalesAt(const at::Tensor& places, const at::Tensor& blocks, const PackedPart& part,
                    const PackedWeight& packed) {
  const PackedStorage& storage = packed.parts().storage;
  const int64_t room = part.runs() * part.run_blocks;
  if (!storage.nested) return Look(Floats(packed.bytes, part.scales, room), places);
  const int64_t all = (part.matrix_elements() + storage.block - 1) / storage.block;
  const int64_t nested = (all + kScalesPerBlock - 1) / kScalesPerBlock;
  const at::Tensor codes = Look(packed.bytes.narrow(0, part.scales, room).to(at::kLong), places);
  const at::Tensor of_blocks = Look(Floats(packed.bytes, part.nested, nested), Quotient(blocks, kScalesPerBlock));
  const at::Tensor offset = Floats(packed.bytes, part.nested + nested * kFloatBytes, 1);
  return Look(OnDevice(DynamicMap(/*negative=*/true), codes), codes) * of_blocks + offset;
}

// [runs, run_size]
at::Tensor Scales(const PackedPart& part, const PackedWeight& packed) {
  const int64_t block = packed.parts().storage.block;
  const auto numbers = [&](int64_t count) { return at::arange(count, packed.bytes.options().dtype(at::kLong)); };
  const at::Tensor runs = numbers(part.runs()).unsqueeze(1);
  const at::Tensor starts = runs * part.matrix_columns + part.RunStart(0);
  const at::Tensor blocks = Quotient(starts + numbers(part.run_size()), block);
  return ScalesAt(blocks - Quotient(starts, block) + runs * part.run_blocks, blocks, part, packed);
}

// int8 and fp8, whose rows have a scale each: [rows, columns]
at::Tensor ScaledRows(const PackedPart& part, const PackedWeight& packed) {
  const bool fp8 = packed.parts().storage.kind == PackedStorage::Kind::kFp8;
  const at::Tensor codes = packed.bytes.narrow(0, part.codes, part.rows * part.columns)
                               .view(fp8 ? at::kFloat8_e4m3fn : at::kChar)
                               .view({part.rows, part.columns});
  const at::Tensor values = codes.to(at::kFloat).mul_(Floats(packed.bytes, part.scales, part.rows).unsqueeze(1));
  return fp8 ? values : values.mul(kInt8Fraction);
}

}  // namespace

void ReferenceDequantise(const PackedRange& range) {
  const bool rows = range.packed.parts().storage.has_row_scales();
  range.ForEachPart([&](const PackedPart& part, int64_t start) {
    const at::Tensor values =
        rows ? ScaledRows(part, range.packed) : Fractions(part, range.packed) * Scales(part, range.packed);
    range.matrix.as_strided({part.rows, part.columns}, {part.local_stride, 1}, range.matrix.storage_offset() + start)
        .copy_(values.view({part.rows, part.columns}));
  });
}

}  // namespace trireme
