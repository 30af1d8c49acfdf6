// Placement: where the elements of a parameter live on a grid. One declaration yields the local shape, the
// boxes each rank holds, who owns a box, and over which axes gradients are summed. pp is not a placement
// axis: which stage holds a parameter is decided by the partition, and everything here is within one stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/box.h"
#include "core/plan/dtype.h"
#include "core/plan/grids.h"

namespace trireme {

// A range of a dim's indices that is split separately: all of a plain dim, or q, k, v of a fused q|k|v.
struct Block {
  int64_t size = 0;
  int parts = 1;        // fewer than the axis has ranks: consecutive ranks hold the same part
  int64_t unit = 1;     // never split within this many indices, such as a head
  int64_t padding = 0;  // indices added at the end so that the parts are equal; they never reach a file
};

struct Dim {
  std::string axis;           // split over this axis; empty: whole on every rank
  std::vector<Block> blocks;  // concatenated
};

Dim WholeDim(int64_t size);
Dim SplitDim(const std::string& axis, std::vector<Block> blocks);
// The padding that rounds `size` up to a multiple of `multiple`.
int64_t PaddingTo(int64_t size, int64_t multiple);

struct ParameterDeclaration {
  std::string name;
  DType dtype = DType::kFp32;
  GridKind grid = GridKind::kDense;
  std::vector<Dim> dims = {};  // empty: a scalar
  // Axes on which the parameter is whole but each rank sees only some of the tokens, as a norm's weight in a
  // sequence-parallel region does over tp: its gradient is summed there, too.
  AxisNames partial_gradient = {};
};

struct LocalBox {
  Box global;          // without padding
  Shape local_offset;  // where the box begins in the rank's local tensor
  int replica = 0;     // 0: this rank owns the box; others hold a copy
};

// Local indices whose part is shared by `ranks` consecutive ranks of an axis: each has a partial
// gradient.
struct SharedBlock {
  int dim = 0;
  int64_t local_offset = 0;
  int64_t local_size = 0;
  std::string axis;
  int ranks = 1;
};

class Placement {
 public:
  // A declaration that does not fit the grid is an InputError with the numbers.
  Placement(ParameterDeclaration declaration, const Grids& grids);

  const std::string& name() const { return declaration_.name; }
  const ParameterDeclaration& declaration() const { return declaration_; }
  const Mesh& mesh() const { return mesh_; }

  Shape GlobalShape() const;  // without padding
  Shape LocalShape() const;   // with padding; the same on every rank

  // What a rank holds, in ascending order of the global offset. Axes of `distinct` count as ranks that hold
  // different elements, as the data axes do once the optimizer is sharded: they make no replicas.
  std::vector<LocalBox> LocalBoxes(int rank, const AxisNames& distinct = {}) const;

  // The gradients of these blocks are summed among the ranks that share them.
  std::vector<SharedBlock> SharedBlocks() const;

 private:
  void Check() const;
  void CheckDim(size_t index) const;
  void CheckBlock(size_t index, const Block& block) const;

  ParameterDeclaration declaration_;
  Mesh mesh_;
};

}  // namespace trireme
