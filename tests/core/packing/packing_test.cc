// Weights in 4 and 8 bits: bytes and scales as bitsandbytes 0.50.2 makes them of the same matrix, those of e4m3 by
// their definition, and parts of a matrix that decode to the parts of the whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/packing/codes.h"
#include "core/packing/decode.h"
#include "core/packing/e4m3.h"
#include "core/packing/pack_codes.h"

namespace trireme {
namespace {

constexpr int64_t kRows = 4, kColumns = 50;

// Its last block is not full, and its first rows begin with zeros.
std::vector<float> Matrix() {
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 20; i < values.size(); ++i) values[i] = (static_cast<float>(i * 37 % 101) - 50) / 64;
  return values;
}

std::vector<float> ScalesOf(const std::vector<float>& values, int64_t block) {
  std::vector<float> scales;
  AppendBlockScales(values, block, scales);
  return scales;
}

float Mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0F) / static_cast<float>(values.size());
}

struct Held {  // a box of the matrix on a rank that has nothing else
  int64_t first_row, rows, first_column, columns;
};

PackedParts PartsOf(const PackedStorage& storage, const Held& held) {
  const Box box{{held.first_row, held.first_column}, {held.rows, held.columns}};
  // The declaration is of what the rank has; the file's matrix is the whole one.
  Parameter parameter = PlainParameter({.name = "w.weight", .dims = {WholeDim(kRows), WholeDim(kColumns)}}, "w.weight");
  parameter.packed = storage;
  ParameterDeclaration own{.name = "w.weight", .dims = {WholeDim(held.rows), WholeDim(held.columns)}};
  parameter.hf.front().box = {{-held.first_row, -held.first_column}, {kRows, kColumns}};
  return PackedPartsOf(parameter, Placement(own, MakeGrids(1, {})), 0);
}

std::vector<uint8_t> Pack(const PackedParts& parts, const std::vector<float>& values) {
  std::vector<float> scales = ScalesOf(values, parts.storage.BlockOf(kColumns));
  if (parts.storage == kFp8Storage) {
    for (float& scale : scales) scale = Fp8RowScale(scale);
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(parts.bytes));
  for (const PackedPart& part : parts.parts) {
    PackRows(part, parts.storage, {0, values}, scales, bytes.data());
    if (parts.storage.nested) {
      StoreScales(part, parts.storage, NestScales(scales, Mean(scales)), bytes.data());
    } else {
      StoreScales(part, parts.storage, scales, bytes.data());
    }
  }
  return bytes;
}

std::vector<float> Decoded(const PackedParts& parts, const std::vector<uint8_t>& bytes, const Held& held) {
  std::vector<float> values(static_cast<size_t>(held.rows * held.columns));
  for (const PackedPart& part : parts.parts) {
    DecodeRows(part, parts.storage, bytes.data(), 0, part.rows, values.data() + part.local_offset);
  }
  return values;
}

constexpr Held kWhole{0, kRows, 0, kColumns};

TEST(Packing, HasTheBytesOfNf4) {
  const PackedParts parts = PartsOf({.kind = PackedStorage::Kind::kNf4, .block = 64, .nested = true}, kWhole);
  const std::vector<uint8_t> bytes = Pack(parts, Matrix());
  const std::vector<uint8_t> wanted = {
      119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 60,  5,   209, 142, 42,  244, 193, 110, 24,  227,
      176, 93,  23,  226, 159, 59,  5,   209, 142, 42,  244, 193, 109, 24,  227, 176, 76,  23,  226, 159,
      59,  5,   209, 126, 42,  244, 192, 109, 24,  226, 160, 76,  22,  226, 159, 59,  5,   209, 126, 41,
      243, 192, 93,  24,  226, 175, 76,  22,  225, 142, 59,  5,   209, 126, 41,  243, 176, 93,  24,  226,
      175, 76,  22,  209, 142, 59,  4,   193, 126, 41,  243, 176, 93,  23,  226, 175, 60,  5,   225, 143};
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.begin() + 100), wanted);
  const NestedScales nested = NestScales(ScalesOf(Matrix(), 64), 0.75390625F);
  EXPECT_EQ(nested.codes, (std::vector<uint8_t>{207, 207, 207, 0}));
  EXPECT_EQ(nested.scales, std::vector<float>{0.08203125F});
  EXPECT_EQ(NestedScale(DynamicMap(true)[207], 0.08203125F, 0.75390625F), 0.7811431884765625F);
}

TEST(Packing, HasTheBytesOfFp4) {
  const PackedParts parts = PartsOf({.kind = PackedStorage::Kind::kFp4, .block = 64, .nested = false}, kWhole);
  const std::vector<uint8_t> bytes = Pack(parts, Matrix());
  const std::vector<uint8_t> wanted = {
      0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   196, 190, 42,  18,  215, 63,  90,  146, 166, 61,
      75,  245, 169, 45,  99,  196, 190, 90,  18,  215, 60,  91,  226, 166, 61,  75,  245, 169, 45,  99,
      196, 190, 90,  18,  215, 60,  91,  226, 161, 45,  123, 245, 169, 42,  99,  196, 190, 90,  2,   214,
      60,  75,  226, 161, 45,  115, 245, 169, 42,  99,  212, 191, 90,  146, 214, 60,  75,  229, 161, 45,
      115, 197, 190, 42,  99,  212, 191, 90,  146, 214, 60,  75,  229, 161, 45,  115, 197, 190, 42,  99};
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.begin() + 100), wanted);
  EXPECT_EQ(ScalesOf(Matrix(), 64), (std::vector<float>{0.78125F, 0.78125F, 0.78125F, 0.671875F}));
}

// Halves go to the even code: 127 · 25 / 50 is 63.5. A row of zeros has zeros. Decoded by bitsandbytes' two products.
TEST(Packing, HasTheBytesOfInt8) {
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < 2 * kColumns; ++i) values[i] = static_cast<float>(i % kColumns) - (i < kColumns ? 0 : 50);
  values[kColumns - 1] = 50;
  values[kColumns - 2] = -25;
  values[2 * kColumns] = 5.875F;
  values[2 * kColumns + 1] = 2.9375F;  // 63.5, by the inverse of the scale a little less
  const PackedParts parts = PartsOf(kInt8Storage, kWhole);
  EXPECT_EQ(ScalesOf(values, kColumns), (std::vector<float>{50, 50, 5.875F, 0}));
  const std::vector<uint8_t> bytes = Pack(parts, values);
  const auto code = [&](size_t i) { return static_cast<int>(static_cast<int8_t>(bytes[i])); };
  EXPECT_EQ(code(25), 64);
  EXPECT_EQ(code(kColumns - 2), -64);
  EXPECT_EQ(code(kColumns - 1), 127);
  EXPECT_EQ(code(kColumns), -127);
  EXPECT_EQ(code(kColumns + 1), -124);  // 127 · 49 / 50 = 124.46
  EXPECT_EQ(code(2 * kColumns + 1), 63);
  EXPECT_EQ(code(3 * kColumns), 0);
  const std::vector<float> decoded = Decoded(parts, bytes, kWhole);
  EXPECT_EQ(decoded[25], 64.0F * 50.0F * 7.874015718698502e-3F);
  EXPECT_EQ(decoded[3 * kColumns], 0.0F);
}

// A scale of 127 leaves the values as they are.
TEST(Packing, HalvesOfInt8GoToTheEvenCode) {
  std::vector<float> values(kRows * kColumns);
  std::ranges::copy(std::vector<float>{127, 62.5F, 63.5F, -62.5F}, values.begin());
  const std::vector<uint8_t> bytes = Pack(PartsOf(kInt8Storage, kWhole), values);
  const std::vector<int> codes = {127, 62, 64, -62};
  for (size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(static_cast<int8_t>(bytes[i]), codes[i]) << i;
}

// A third of the value is between two codes: its product with the inverse of 3 above their middle, its quotient below.
TEST(Packing, OnlyTheLastBlockDividesByItsScale) {
  std::vector<float> values(kRows * kColumns);
  for (const size_t begin : {size_t{0}, size_t{192}}) {  // a full block, and the last one, which is not
    values[begin] = 3;
    values[begin + 1] = 1.1679376363754272F;
  }
  const PackedParts parts = PartsOf({.kind = PackedStorage::Kind::kNf4, .block = 64, .nested = false}, kWhole);
  const std::vector<uint8_t> bytes = Pack(parts, values);
  EXPECT_EQ(bytes[0], 15 << 4 | 12);
  EXPECT_EQ(bytes[96], 15 << 4 | 11);
}

TEST(Packing, DecodedHalvesOfBf16GoToTheEvenNumber) {
  std::vector<float> values(kRows * kColumns);
  values[0] = 1 + 1.0F / 256;   // between 1 and 1 + 1 / 128
  values[64] = 1 + 3.0F / 256;  // between that and 1 + 2 / 128
  const PackedParts parts = PartsOf({.kind = PackedStorage::Kind::kNf4, .block = 64, .nested = false}, kWhole);
  const std::vector<uint8_t> bytes = Pack(parts, values);
  std::vector<uint16_t> decoded(values.size());
  DecodeRows(parts.parts.front(), parts.storage, bytes.data(), 0, kRows, decoded.data());
  EXPECT_EQ(decoded[0], 0x3F80);
  EXPECT_EQ(decoded[64], 0x3F82);
  EXPECT_EQ(decoded[1], 0);
}

// More blocks than share a scale of scales: 256 of small weights, then 44 of large ones.
TEST(Packing, NestedScalesOfALargeMatrixHaveScalesOfTheirOwn) {
  constexpr int64_t kManyRows = 300, kFew = 32;
  const PackedStorage storage{.kind = PackedStorage::Kind::kNf4, .block = kFew, .nested = true};
  const PackedPart part = WholeMatrix("w.weight", kManyRows, kFew, storage);
  std::vector<float> values(kManyRows * kFew), decoded(values.size());
  for (int64_t row = 0; row < kManyRows; ++row) values[static_cast<size_t>(row * kFew)] = row < 256 ? 1 : 50;
  const std::vector<float> scales = ScalesOf(values, kFew);
  std::vector<uint8_t> bytes(static_cast<size_t>(PlaceParts(storage, {part}).bytes));
  PackRows(part, storage, {0, values}, scales, bytes.data());
  StoreScales(part, storage, NestScales(scales, Mean(scales)), bytes.data());
  DecodeRows(part, storage, bytes.data(), 0, kManyRows, decoded.data());
  for (const int64_t row : {0, 255, 256, 299}) {
    EXPECT_NEAR(decoded[static_cast<size_t>(row * kFew)], row < 256 ? 1 : 50, 0.1) << row;
  }
}

// 448 is what the largest of a row may become, and its scale a power of two. Codes lie as the matrix does, then the
// scales.
TEST(Packing, HasTheBytesOfFp8) {
  std::vector<float> values(kRows * kColumns);
  values[0] = 7;                // 448 / 64
  values[1] = -1.0625F;         // 68, between 64 and 72: to the even code
  values[2] = 1.1875F;          // 76, between 72 and 80
  values[3] = 1e-4F;            // 0.0064, between 3 and 4 units of 2^-9
  values[4] = 1.15e-4F;         // 0.0074, nearer to 4
  values[kColumns] = 7.03125F;  // a little beyond: the next scale
  const PackedParts parts = PartsOf(kFp8Storage, kWhole);
  ASSERT_EQ(parts.bytes, 208 + 4 * kRows);
  const std::vector<uint8_t> bytes = Pack(parts, values);
  EXPECT_EQ(bytes[0], 0x7E);
  EXPECT_EQ(bytes[1], 0x80 | 0x68);
  EXPECT_EQ(bytes[2], 0x6A);
  EXPECT_EQ(bytes[3], 3);
  EXPECT_EQ(bytes[4], 4);
  EXPECT_EQ(bytes[kColumns], 0x76);  // 225 becomes 224
  const std::vector<float> decoded = Decoded(parts, bytes, kWhole);
  EXPECT_EQ(decoded[0], 7);
  EXPECT_EQ(decoded[2], 1.25F);
  EXPECT_EQ(decoded[kColumns], 7);
  EXPECT_EQ(decoded[2 * kColumns], 0);
  EXPECT_EQ(Fp8RowScale(7), 1.0F / 64);
  EXPECT_EQ(Fp8RowScale(7.03125F), 1.0F / 32);
}

// Splits that cut blocks, and bytes, in the middle; of int8 and fp8 the scale is that of the whole row.
TEST(Packing, PartsDecodeToPartsOfTheWhole) {
  for (const PackedStorage& storage :
       {PackedStorage{.kind = PackedStorage::Kind::kNf4, .block = 32, .nested = false},
        PackedStorage{.kind = PackedStorage::Kind::kNf4, .block = 32, .nested = true}, kInt8Storage, kFp8Storage}) {
    const PackedParts whole = PartsOf(storage, kWhole);
    const std::vector<float> all = Decoded(whole, Pack(whole, Matrix()), kWhole);
    for (const Held& held : {Held{2, 2, 0, 50}, Held{1, 1, 0, 50}, Held{0, 4, 25, 25}, Held{1, 3, 7, 13}}) {
      const PackedParts parts = PartsOf(storage, held);
      const std::vector<float> found = Decoded(parts, Pack(parts, Matrix()), held);
      for (int64_t r = 0; r < held.rows; ++r) {
        for (int64_t c = 0; c < held.columns; ++c) {
          EXPECT_EQ(found[static_cast<size_t>(r * held.columns + c)],
                    all[static_cast<size_t>((held.first_row + r) * kColumns + held.first_column + c)])
              << r << ", " << c;
        }
      }
    }
  }
}

TEST(Packing, CodesOfFilesAreTheRanksOwn) {
  const PackedStorage storage{.kind = PackedStorage::Kind::kNf4, .block = 64, .nested = false};
  const PackedParts whole = PartsOf(storage, kWhole), part = PartsOf(storage, {1, 3, 7, 13});
  const std::vector<uint8_t> file = Pack(whole, Matrix());
  std::vector<uint8_t> wanted = Pack(part, Matrix()), found(wanted.size());
  CopyCodes(part.parts.front(), {file.data(), 100}, found.data());
  StoreScales(part.parts.front(), storage, ScalesOf(Matrix(), 64), found.data());
  EXPECT_EQ(found, wanted);
}

TEST(Packing, CodesOfFilesInEightBitsAreTheRanksOwn) {
  const PackedParts whole = PartsOf(kInt8Storage, kWhole), part = PartsOf(kInt8Storage, {1, 3, 7, 13});
  const std::vector<uint8_t> file = Pack(whole, Matrix());
  std::vector<uint8_t> wanted = Pack(part, Matrix()), found(wanted.size());
  CopyCodes(part.parts.front(), {file.data(), kRows * kColumns}, found.data());
  StoreScales(part.parts.front(), kInt8Storage, ScalesOf(Matrix(), kColumns), found.data());
  EXPECT_EQ(found, wanted);
}

// 4 + 8 / 64 + 32 / (64 · 256) bits a weight.
TEST(Packing, TakesFourBitsAndAnEighth) {
  Parameter parameter = PlainParameter({.name = "w.weight", .dims = {WholeDim(1024), WholeDim(1024)}}, "w.weight");
  parameter.packed = PackedStorage{};
  const PackedParts parts = PackedPartsOf(parameter, Placement(parameter.declaration, MakeGrids(1, {})), 0);
  EXPECT_NEAR(static_cast<double>(parts.bytes) * 8 / (1024 * 1024), 4.127, 0.001);
}

TEST(Packing, TheMapOfEightBitsIsAsymmetric) {
  for (const bool negative : {true, false}) {
    const std::vector<float> map = DynamicMap(negative);
    EXPECT_EQ(map.size(), 256U);
    EXPECT_EQ(map.back(), 1.0F);
    EXPECT_NEAR(map.front(), negative ? -0.99297F : 0.0F, 1e-5);
  }
}

}  // namespace
}  // namespace trireme
