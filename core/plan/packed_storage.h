// PackedStorage: how a frozen matrix is stored in 4 or 8 bits a weight, by bitsandbytes' rules: consecutive weights of
// a file's matrix, row after row, form blocks with a scale each. And in e4m3 for products in FP8, where a row is a
// block, too, and the rank's codes lie as the rows of its matrix do. Numbers are in core/packing/.
#pragma once

#include <cstdint>

namespace trireme {

struct PackedStorage {
  enum class Kind { kNf4, kFp4, kInt8, kFp8 };
  Kind kind = Kind::kNf4;
  int64_t block = 64;  // weights that share a scale; int8, fp8: 0, for a row is a block
  bool nested = true;  // scales are packed, too: 8 bits each, 256 of them with a scale
  bool operator==(const PackedStorage&) const = default;

  bool has_row_scales() const { return kind == Kind::kInt8 || kind == Kind::kFp8; }
  int64_t code_bits() const { return has_row_scales() ? 8 : 4; }
  // Of a matrix with so many columns.
  int64_t BlockOf(int64_t columns) const { return has_row_scales() ? columns : block; }
};

inline constexpr PackedStorage kInt8Storage{.kind = PackedStorage::Kind::kInt8, .block = 0, .nested = false};
inline constexpr PackedStorage kFp8Storage{.kind = PackedStorage::Kind::kFp8, .block = 0, .nested = false};

// As users write it.
constexpr const char* Name(PackedStorage::Kind kind) {
  switch (kind) {
    case PackedStorage::Kind::kNf4:
      return "nf4";
    case PackedStorage::Kind::kFp4:
      return "fp4";
    case PackedStorage::Kind::kInt8:
      return "int8";
    case PackedStorage::Kind::kFp8:
      return "fp8";
  }
  return "";
}

// Block sizes that bitsandbytes has.
constexpr bool IsPackedBlock(int64_t block) { return block >= 32 && block <= 4096 && (block & (block - 1)) == 0; }

}  // namespace trireme
