#include "core/packing/pack_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/packing/codes.h"
#include "core/packing/e4m3.h"

namespace trireme {
namespace {

constexpr float kLeastScale = 1e-38F;  // what a block of zeros is divided by

void PutCode(uint8_t* codes, int64_t place, uint8_t code) {
  uint8_t& byte = codes[place / 2];
  byte = place % 2 == 0 ? static_cast<uint8_t>(code << 4 | (byte & 15)) : static_cast<uint8_t>((byte & 0xF0) | code);
}

// Where the codes of a row of the part begin.
struct RowCodes {
  uint8_t* codes;
  int64_t place;

  RowCodes(const PackedPart& part, int64_t row, uint8_t* bytes)
      : codes(bytes + part.codes + (part.has_whole_rows() ? 0 : row * part.run_code_bytes())),
        place(part.has_whole_rows() ? row * part.columns : 0) {}
};

// Codes of elements of one block. The last block of a matrix, if it is not full, is divided by its scale; the others
// are multiplied by its inverse: so their codes are rounded elsewhere, too.
void PackBlock(const NearestCode& nearest, std::span<const float> values, float scale, bool divides, const RowCodes& to,
               int64_t offset) {
  const float least = std::max(scale, kLeastScale), inverse = 1.0F / least;
  for (size_t i = 0; i < values.size(); ++i) {
    const float fraction = divides ? values[i] / least : values[i] * inverse;
    PutCode(to.codes, to.place + offset + static_cast<int64_t>(i), nearest(std::clamp(fraction, -1.0F, 1.0F)));
  }
}

// Codes of 8 bits; a row of zeros has zeros. Halves go to the even code. The order of the operations is bitsandbytes':
// torch divides a number by a tensor through the tensor's inverse.
void PackRow(std::span<const float> values, float scale, uint8_t* codes) {
  const float factor = scale == 0 ? 0 : (1.0F / scale) * 127.0F;
  for (size_t i = 0; i < values.size(); ++i) {
    codes[i] = static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(values[i] * factor)));
  }
}

// A power of two divides without rounding.
void PackFp8Row(std::span<const float> values, float scale, uint8_t* codes) {
  const float inverse = 1.0F / scale;
  for (size_t i = 0; i < values.size(); ++i) codes[i] = Fp8Of(values[i] * inverse);
}

// Calls store(index of the scale in the part's room, block of the matrix) for each block that the part touches.
template <typename Store>
void ForEachScale(const PackedPart& part, const Store& store) {
  for (int64_t run = 0; run < part.runs(); ++run) {
    const int64_t begin = part.RunStart(run), first = begin / part.block,
                  last = (begin + part.run_size() - 1) / part.block;
    for (int64_t b = first; b <= last; ++b) store(run * part.run_blocks + b - first, b);
  }
}

}  // namespace

void PackRows(const PackedPart& part, const PackedStorage& storage, const MatrixRows& rows,
              std::span<const float> scales, uint8_t* bytes) {
  const bool wide = storage.has_row_scales();
  const auto pack_row = storage.kind == PackedStorage::Kind::kFp8 ? PackFp8Row : PackRow;
  const NearestCode nearest(wide ? PackedStorage::Kind::kNf4 : storage.kind);
  const int64_t columns = part.matrix_columns, count = static_cast<int64_t>(rows.values.size()) / columns;
  const int64_t begin = std::max(rows.first, part.first_row),
                end = std::min(rows.first + count, part.first_row + part.rows);
  const int64_t whole = part.matrix_elements() / part.block;  // full blocks
  for (int64_t row = begin; row < end; ++row) {
    const RowCodes to(part, row - part.first_row, bytes);
    const int64_t first = row * columns + part.first_column;  // element of the matrix
    const float* values = rows.values.data() + (row - rows.first) * columns + part.first_column;
    for (int64_t c = 0; c < part.columns;) {
      const int64_t block = (first + c) / part.block;
      const int64_t size = std::min(part.columns - c, (block + 1) * part.block - (first + c));
      const std::span<const float> some(values + c, static_cast<size_t>(size));
      const float scale = scales[static_cast<size_t>(block)];
      if (wide) {
        pack_row(some, scale, to.codes + to.place + c);
      } else {
        PackBlock(nearest, some, scale, block >= whole, to, c);
      }
      c += size;
    }
  }
}

void CopyCodes(const PackedPart& part, std::span<const uint8_t> codes, uint8_t* bytes) {
  for (int64_t row = 0; row < part.rows; ++row) {
    const RowCodes to(part, row, bytes);
    const int64_t first = (part.first_row + row) * part.matrix_columns + part.first_column;
    if (part.code_bits == 8) {
      std::copy_n(codes.data() + first, part.columns, to.codes + to.place);
      continue;
    }
    for (int64_t c = 0; c < part.columns; ++c) {
      const uint8_t byte = codes[static_cast<size_t>((first + c) / 2)];
      PutCode(to.codes, to.place + c, (first + c) % 2 == 0 ? byte >> 4 : byte & 15);
    }
  }
}

void StoreScales(const PackedPart& part, const PackedStorage& storage, std::span<const float> scales, uint8_t* bytes) {
  TRIREME_CHECK(!storage.nested) << part.name;
  ForEachScale(part, [&](int64_t place, int64_t block) {
    std::memcpy(bytes + part.scales + place * static_cast<int64_t>(sizeof(float)), &scales[static_cast<size_t>(block)],
                sizeof(float));
  });
}

void StoreScales(const PackedPart& part, const PackedStorage& storage, const NestedScales& scales, uint8_t* bytes) {
  TRIREME_CHECK(storage.nested) << part.name;
  ForEachScale(part, [&](int64_t place, int64_t block) {
    bytes[part.scales + place] = scales.codes[static_cast<size_t>(block)];
  });
  std::memcpy(bytes + part.nested, scales.scales.data(), scales.scales.size() * sizeof(float));
  std::memcpy(bytes + part.nested + static_cast<int64_t>(scales.scales.size() * sizeof(float)), &scales.offset,
              sizeof(float));
}

}  // namespace trireme
