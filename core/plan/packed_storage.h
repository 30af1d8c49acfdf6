// PackedStorage: how a frozen matrix is stored in 4 bits a weight, by bitsandbytes' rules: consecutive weights of a file's
// matrix, row after row, form blocks with a scale each. Numbers are in core/packing/.
#pragma once

#include <cstdint>

namespace trireme {

struct PackedStorage {
  enum class Kind { kNf4, kFp4 };
  Kind kind = Kind::kNf4;
  int64_t block = 64;  // weights that share a scale
  bool nested = true;  // scales are packed, too: 8 bits each, 256 of them with a scale
  bool operator==(const PackedStorage&) const = default;
};

// Block sizes that bitsandbytes has.
constexpr bool IsPackedBlock(int64_t block) { return block >= 32 && block <= 4096 && (block & (block - 1)) == 0; }

}  // namespace trireme
