// PackedStorage: how a frozen matrix is stored in 4 or 8 bits a weight, by bitsandbytes' rules: consecutive weights of
// a file's matrix, row after row, form blocks with a scale each. Numbers are in core/packing/.
#pragma once

#include <cstdint>

namespace trireme {

struct PackedStorage {
  enum class Kind { kNf4, kFp4, kInt8 };
  Kind kind = Kind::kNf4;
  int64_t block = 64;  // weights that share a scale; int8: 0, for a row is a block
  bool nested = true;  // scales are packed, too: 8 bits each, 256 of them with a scale
  bool operator==(const PackedStorage&) const = default;

  int64_t code_bits() const { return kind == Kind::kInt8 ? 8 : 4; }
  // Of a matrix with so many columns.
  int64_t BlockOf(int64_t columns) const { return kind == Kind::kInt8 ? columns : block; }
};

inline constexpr PackedStorage kInt8Storage{.kind = PackedStorage::Kind::kInt8, .block = 0, .nested = false};

// As users write it.
constexpr const char* Name(PackedStorage::Kind kind) {
  return kind == PackedStorage::Kind::kNf4 ? "nf4" : kind == PackedStorage::Kind::kFp4 ? "fp4" : "int8";
}

// Block sizes that bitsandbytes has.
constexpr bool IsPackedBlock(int64_t block) { return block >= 32 && block <= 4096 && (block & (block - 1)) == 0; }

}  // namespace trireme
