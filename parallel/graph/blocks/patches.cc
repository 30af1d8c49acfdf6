// The patch embedding of a vision tower: a matrix over the pixels of a patch, and a table of learned positions, which
// is interpolated to each image's grid, or has an entry for each patch of a tile.
#include "core/base/error.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

class Patches : public LayerBlock {
 public:
  explicit Patches(const PatchSpec& spec) : spec_(spec) {}

  void Declare(Declarer& declare) const override {
    declare.HoldAllTokens();
    Shape shape = {spec_.tower.hidden};
    shape.insert(shape.end(), spec_.kernel.begin(), spec_.kernel.end());
    declare.Whole("patch.weight", shape);
    if (spec_.bias) declare.Whole("patch.bias", {spec_.tower.hidden}, /*zero=*/true);
    const int64_t side = spec_.tower.table_side;
    if (side > 0) declare.Whole("positions.weight", {side * side, spec_.tower.hidden});
    const int64_t tile = spec_.tower.tile;
    if (tile == 0) return;
    declare.Whole("class.weight", {1, 1, spec_.tower.hidden}, /*zero=*/true);
    declare.Whole("positions.weight", {1, 1 + tile * tile, spec_.tower.hidden}, /*zero=*/true);
  }

  int64_t MatMulParameters() const override { return kPatchesPerToken * spec_.inputs() * spec_.tower.hidden; }

  SavedElements Saved(const ActivationShape& shape) const override {
    const int64_t pixels = kPatchesPerToken * shape.tokens * spec_.inputs();
    return {.none = pixels, .selective = pixels, .full = pixels};
  }

  std::string ToText() const override {
    const int64_t side = spec_.tower.table_side, tile = spec_.tower.tile;
    return Concat("patches ", spec_.inputs(), " > ", spec_.tower.hidden,
                  side > 0 ? Concat(", positions ", side, " x ", side) : "",
                  tile > 0 ? Concat(", tiles of ", tile, " x ", tile, " and a class token") : "");
  }

 private:
  const PatchSpec spec_;
};

}  // namespace

BlockPointer PatchBlock(const PatchSpec& spec) { return std::make_unique<Patches>(spec); }

}  // namespace trireme
