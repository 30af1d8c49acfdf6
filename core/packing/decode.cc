#include "core/packing/decode.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "core/packing/codes.h"
#include "core/packing/e4m3.h"
#include "core/packing/scales.h"

namespace trireme {
namespace {

void Round(float value, float& to) { to = value; }
void Round(float value, uint16_t& to) {  // to the nearest bf16, of two as near the even one
  const auto bits = std::bit_cast<uint32_t>(value);
  to = static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float FloatAt(const uint8_t* bytes, int64_t index) {
  float value = 0;
  std::memcpy(&value, bytes + index * static_cast<int64_t>(sizeof(float)), sizeof(float));
  return value;
}

// The scales of one part.
class PartScales {
 public:
  PartScales(const PackedPart& part, const PackedStorage& storage, const uint8_t* bytes)
      : storage_(storage), room_(part.run_blocks), scales_(bytes + part.scales), nested_(bytes + part.nested) {
    const int64_t blocks = (part.matrix_elements() + part.block - 1) / part.block;
    if (storage.nested) offset_ = FloatAt(nested_, (blocks + kScalesPerBlock - 1) / kScalesPerBlock);
  }

  // Of a block of the matrix, the `index`th that the run touches.
  float operator()(int64_t run, int64_t index, int64_t block) const {
    const int64_t place = run * room_ + index;
    if (!storage_.nested) return FloatAt(scales_, place);
    static const std::vector<float> map = DynamicMap(/*negative=*/true);
    return NestedScale(map[scales_[place]], FloatAt(nested_, block / kScalesPerBlock), offset_);
  }

 private:
  const PackedStorage& storage_;
  const int64_t room_;
  const uint8_t* scales_;
  const uint8_t* nested_;
  float offset_ = 0;
};

// `count` values whose codes begin at `place`.
template <typename T>
void Look(const T (&table)[16], const uint8_t* codes, int64_t place, int64_t count, T* to) {
  int64_t i = 0;
  if (place % 2 == 1 && count > 0) to[i++] = table[codes[place / 2] & 15];
  const uint8_t* from = codes + (place + i) / 2;
  for (; i + 1 < count; i += 2, ++from) {
    to[i] = table[*from >> 4];
    to[i + 1] = table[*from & 15];
  }
  if (i < count) to[i] = table[*from >> 4];
}

// Elements of one block, `count` from the `place`th code of a run on.
template <typename T>
void DecodeBlock(const PackedStorage& storage, float scale, const uint8_t* codes, int64_t place, int64_t count, T* to) {
  if (storage.kind == PackedStorage::Kind::kInt8) {
    const auto* from = reinterpret_cast<const int8_t*>(codes) + place;
    for (int64_t i = 0; i < count; ++i) Round(static_cast<float>(from[i]) * scale * kInt8Fraction, to[i]);
    return;
  }
  if (storage.kind == PackedStorage::Kind::kFp8) {
    for (int64_t i = 0; i < count; ++i) Round(FromFp8(codes[place + i]) * scale, to[i]);
    return;
  }
  const CodeTable& values = ValuesOfCodes(storage.kind);
  T table[16];
  for (size_t i = 0; i < 16; ++i) Round(values[i] * scale, table[i]);
  Look(table, codes, place, count, to);
}

template <typename T>
void Decode(const PackedPart& part, const PackedStorage& storage, const uint8_t* bytes, int64_t begin, int64_t end,
            T* part_start) {
  const PartScales scales(part, storage, bytes);
  for (int64_t row = begin; row < end; ++row) {
    const bool whole = part.has_whole_rows();
    const int64_t run = whole ? 0 : row, place = whole ? row * part.columns : 0;
    const int64_t first_block = part.RunStart(run) / part.block, first = part.RunStart(row);
    const uint8_t* codes = bytes + part.codes + run * part.run_code_bytes();
    T* to = part_start + row * part.local_stride;
    for (int64_t c = 0; c < part.columns;) {
      const int64_t block = (first + c) / part.block;
      const int64_t size = std::min(part.columns - c, (block + 1) * part.block - (first + c));
      DecodeBlock(storage, scales(run, block - first_block, block), codes, place + c, size, to + c);
      c += size;
    }
  }
}

}  // namespace

void DecodeRows(const PackedPart& part, const PackedStorage& storage, const uint8_t* bytes, int64_t begin, int64_t end,
                float* part_start) {
  Decode(part, storage, bytes, begin, end, part_start);
}

void DecodeRows(const PackedPart& part, const PackedStorage& storage, const uint8_t* bytes, int64_t begin, int64_t end,
                uint16_t* part_start) {
  Decode(part, storage, bytes, begin, end, part_start);
}

}  // namespace trireme
