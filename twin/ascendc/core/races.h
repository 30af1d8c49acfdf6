// Which block touched which bytes of global memory, and whether two of them did so unordered. Blocks add
// their accesses when they end, so the hot path only appends to a list per block.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "twin/ascendc/include/ascendc/global_access.h"

namespace twin::ascendc {

class Races {
 public:
  // An earlier access that `mine` races with. Adds `mine` if there is none.
  std::optional<GlobalAccess> Add(const GlobalAccess& mine);

 private:
  struct Cell {  // bytes starting at its map key, and everyone who touched them
    uint64_t end;
    std::vector<GlobalAccess> by;
  };
  using Cells = std::map<uint64_t, Cell>;

  std::optional<GlobalAccess> Clash(const Cells& cells, const GlobalAccess& mine) const;
  void Split(Cells& cells, uint64_t at);
  void Keep(const GlobalAccess& mine);

  Cells cells_[kAccessKinds];
  size_t kept_ = 0;
};

}  // namespace twin::ascendc
