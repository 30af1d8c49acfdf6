// Packed weights: the kernel, and ATen, against the loops of core/packing, bit for bit. That those have the values of
// bitsandbytes is tested with them and in tests/parity.
#include "core/packing/decode.h"
#include "ops/dequantise/ascendc.h"
#include "ops/dequantise/reference.h"
#include "tests/ops/ascendc/kernel_case.h"

namespace trireme {
namespace {

constexpr float kUntouched = 1234;  // exact in bf16

// A box of a matrix, in a tensor whose rows may lie apart.
PackedPart RandomPart(KernelCase& c) {
  PackedPart part{.name = "w", .matrix_rows = c.Between(1, 40), .matrix_columns = c.Columns()};
  if (c.Chance(0.1)) part.matrix_columns = c.Between(2000, 9000);
  part.first_row = c.Between(0, part.matrix_rows - 1);
  part.rows = c.Between(1, part.matrix_rows - part.first_row);
  part.first_column = c.Chance(0.4) ? 0 : c.Between(0, part.matrix_columns - 1);
  part.columns =
      c.Chance(0.6) ? part.matrix_columns - part.first_column : c.Between(1, part.matrix_columns - part.first_column);
  part.local_offset = c.Between(0, 20);
  part.local_stride = part.columns + (c.Chance(0.7) ? 0 : c.Between(1, 9));
  return part;
}

// Any bytes are codes; scales that are fp32 need numbers.
at::Tensor RandomBytes(const PackedParts& parts) {
  const PackedPart& part = parts.parts.front();
  const at::Tensor bytes = at::randint(256, {(parts.bytes + 3) / 4 * 4}, at::kByte);
  const int64_t floats = parts.storage.nested ? part.nested : part.scales;
  const at::Tensor numbers = bytes.narrow(0, floats, (bytes.numel() - floats) / 4 * 4).view(at::kFloat);
  numbers.copy_(at::randn(numbers.sizes()));
  return bytes;
}

at::Tensor ByLoops(const PackedPart& part, const PackedStorage& storage, const at::Tensor& bytes,
                   const at::Tensor& like) {
  const at::Tensor to = at::full_like(like, kUntouched);
  const auto* from = bytes.const_data_ptr<uint8_t>();
  if (to.scalar_type() == at::kFloat) {
    DecodeRows(part, storage, from, 0, part.rows, Of<float>(to) + part.local_offset);
  } else {
    DecodeRows(part, storage, from, 0, part.rows, Of<uint16_t>(to) + part.local_offset);
  }
  return to;
}

void ExpectSameBits(const at::Tensor& found, const at::Tensor& wanted, const std::string& context) {
  const at::ScalarType bits = found.element_size() == 4 ? at::kInt : at::kShort;
  const at::Tensor wrong = found.view(bits).ne(wanted.view(bits));
  if (!wrong.any().item<bool>()) return;
  const int64_t at = wrong.to(at::kInt).argmax().item<int64_t>();
  ADD_FAILURE() << context << ": " << wrong.sum().item<int64_t>() << " of " << wrong.numel() << " wrong; element " << at
                << " is " << found[at].item<float>() << ", wanted " << wanted[at].item<float>();
}

TEST(DequantiseKernel, RandomCases) {
  int kernels = 0, declined = 0;
  ForCases(400, [&](KernelCase& c, const std::string& given) {
    const at::ScalarType type = c.Pick({at::kFloat, at::kBFloat16});
    const PackedStorage in_4_bits{.kind = c.Pick({PackedStorage::Kind::kNf4, PackedStorage::Kind::kFp4}),
                                  .block = int64_t{32} << c.Between(0, c.Chance(0.5) ? 1 : 7),
                                  .nested = c.Chance(0.5)};
    const PackedStorage storage = c.Chance(0.1) ? kInt8Storage : in_4_bits;  // int8 by ATen alone
    const PackedParts parts = PlaceParts(storage, {RandomPart(c)});
    const PackedPart& part = parts.parts.front();
    const std::string context =
        Concat(given, ", ", c10::toString(type), ", blocks of ", storage.block, storage.nested ? " nested, [" : ", [",
               part.first_row, " + ", part.rows, ", ", part.first_column, " + ", part.columns, "] of [",
               part.matrix_rows, ", ", part.matrix_columns, "], stride ", part.local_stride);
    PackedWeight packed(parts, {part.local_offset + part.rows * part.local_stride}, type);
    packed.bytes = RandomBytes(parts);
    const at::Tensor found = at::full(packed.shape(), kUntouched, type), again = found.clone();
    const at::Tensor wanted = ByLoops(part, storage, packed.bytes, found);
    ReferenceDequantise({packed, 0, again});
    ExpectSameBits(again, wanted, context + ", by ATen");
    const bool declines =
        storage == kInt8Storage || (part.columns == part.matrix_columns && part.local_stride != part.columns);
    EXPECT_EQ(std::string(ascendc::WhyNotDequantised(part, storage)).empty(), !declines) << context;
    ++(declines ? declined : kernels);
    if (declines) return;
    const std::vector<float> tables = ascendc::DequantiseTables(storage.kind);
    ascendc::Dequantise(c.place(), ElementOf(found), part, storage, packed.bytes.const_data_ptr(), tables.data(),
                        static_cast<uint8_t*>(found.data_ptr()) + part.local_offset * found.element_size());
    ExpectSameBits(found, wanted, context);
  });
  EXPECT_GT(kernels, 300);
  EXPECT_GT(declined, 5);
}

}  // namespace
}  // namespace trireme
