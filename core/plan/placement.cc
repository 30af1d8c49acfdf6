// Placement: each dim gives a list of segments for a rank; boxes are their products.
#include "core/plan/placement.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

struct Segment {  // of one dim, on one rank
  int64_t global = 0;
  int64_t local = 0;
  int64_t size = 0;
  int copy = 0;  // index among the ranks that share the part
  int copies = 1;
};

int64_t LocalSize(const Block& block) { return (block.size + block.padding) / block.parts; }

int64_t DimSum(const Dim& dim, const std::function<int64_t(const Block&)>& size) {
  int64_t sum = 0;
  for (const Block& block : dim.blocks) sum += size(block);
  return sum;
}

std::vector<Segment> SegmentsOn(const Dim& dim, const Mesh& mesh, int rank) {
  const int ranks = dim.axis.empty() ? 1 : mesh.Size(dim.axis);
  const int coordinate = dim.axis.empty() ? 0 : mesh.Coordinate(rank, dim.axis);
  std::vector<Segment> segments;
  int64_t global = 0, local = 0;
  for (const Block& block : dim.blocks) {
    const int copies = ranks / block.parts;
    const int64_t begin = coordinate / copies * LocalSize(block);
    const int64_t end = std::min(begin + LocalSize(block), block.size);  // padding belongs to no box
    if (end > begin) segments.push_back({global + begin, local, end - begin, coordinate % copies, copies});
    global += block.size;
    local += LocalSize(block);
  }
  return segments;
}

// "3 x 64" for 192 in units of 64, so that a message shows heads and not only the total.
std::string CountText(int64_t size, int64_t unit) {
  if (unit == 1) return Concat(size);
  return size % unit == 0 ? Concat(size / unit, " x ", unit) : Concat(size, " in units of ", unit);
}

bool Contains(const AxisNames& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Dim WholeDim(int64_t size) { return {"", {{.size = size}}}; }

Dim SplitDim(const std::string& axis, std::vector<Block> blocks) { return {axis, std::move(blocks)}; }

int64_t PaddingTo(int64_t size, int64_t multiple) { return (multiple - size % multiple) % multiple; }

Placement::Placement(ParameterDeclaration declaration, const Grids& grids)
    : declaration_(std::move(declaration)), mesh_(grids.Of(declaration_.grid)) {
  Check();
}

void Placement::Check() const {
  AxisNames used = {"pp"};
  for (size_t index = 0; index < declaration_.dims.size(); ++index) {
    CheckDim(index);
    const std::string& axis = declaration_.dims[index].axis;
    if (axis.empty()) continue;
    if (Contains(used, axis)) {
      throw InputError(name(), ": dim ", index, " cannot be split over ", axis,
                       axis == "pp" ? ", which splits layers" : ", which splits an earlier dim",
                       "; choose another axis");
    }
    used.push_back(axis);
  }
  for (const std::string& axis : declaration_.partial_gradient) {
    mesh_.Size(axis);  // rejects an unknown axis
    if (Contains(used, axis)) {
      throw InputError(name(), ": the gradient cannot be partial over ", axis,
                       ", because the parameter is split over it");
    }
  }
}

void Placement::CheckDim(size_t index) const {
  const Dim& dim = declaration_.dims[index];
  if (dim.blocks.empty()) throw InputError(name(), ": dim ", index, " has no block; wanted at least one");
  for (const Block& block : dim.blocks) CheckBlock(index, block);
}

void Placement::CheckBlock(size_t index, const Block& block) const {
  const Dim& dim = declaration_.dims[index];
  const int ranks = dim.axis.empty() ? 1 : mesh_.Size(dim.axis);
  if (block.size < 0 || block.padding < 0 || block.parts < 1 || block.unit < 1) {
    throw InputError(name(), ": dim ", index, " has a block of size ", block.size, ", padding ", block.padding,
                     ", parts ", block.parts, ", unit ", block.unit,
                     "; wanted no negative value, parts and unit at least 1");
  }
  if (ranks % block.parts != 0) {
    throw InputError(name(), ": dim ", index, " in ", block.parts, " parts cannot be spread over ",
                     dim.axis.empty() ? "one rank" : Concat(dim.axis, " = ", ranks),
                     "; wanted a number of parts that divides the ranks");
  }
  const int64_t size = block.size + block.padding;
  if (size % (block.parts * block.unit) != 0) {
    throw InputError(name(), ": dim ", index, " = ", CountText(size, block.unit), " does not divide ",
                     block.parts < ranks ? Concat("into ", block.parts, " parts ") : "", "over ",
                     dim.axis.empty() ? "one rank" : Concat(dim.axis, " = ", ranks));
  }
}

Shape Placement::GlobalShape() const {
  Shape shape;
  for (const Dim& dim : declaration_.dims) {
    shape.push_back(DimSum(dim, [](const Block& block) { return block.size; }));
  }
  return shape;
}

Shape Placement::LocalShape() const {
  Shape shape;
  for (const Dim& dim : declaration_.dims) shape.push_back(DimSum(dim, LocalSize));
  return shape;
}

std::vector<LocalBox> Placement::LocalBoxes(int rank, const AxisNames& distinct) const {
  // Copies on the axes that split no dim; copies of shared parts are added box by box.
  int copy = 0, copies = 1;
  for (const Axis& axis : mesh_.Atoms()) {
    const auto splits = [&](const Dim& dim) { return dim.axis == axis.name; };
    if (axis.name == "pp" || Contains(distinct, axis.name)) continue;
    if (std::any_of(declaration_.dims.begin(), declaration_.dims.end(), splits)) continue;
    copy += copies * mesh_.Coordinate(rank, axis.name);
    copies *= axis.size;
  }
  struct Partial {
    LocalBox box;
    int copies;
  };
  std::vector<Partial> boxes = {{{{}, {}, copy}, copies}};
  for (const Dim& dim : declaration_.dims) {
    std::vector<Partial> longer;
    for (const Partial& partial : boxes) {
      for (const Segment& segment : SegmentsOn(dim, mesh_, rank)) {
        Partial next = partial;
        next.box.global.offset.push_back(segment.global);
        next.box.global.extent.push_back(segment.size);
        next.box.local_offset.push_back(segment.local);
        next.box.replica += partial.copies * segment.copy;
        next.copies *= segment.copies;
        longer.push_back(std::move(next));
      }
    }
    boxes = std::move(longer);
  }
  std::vector<LocalBox> result;
  for (Partial& partial : boxes) result.push_back(std::move(partial.box));
  return result;
}

std::vector<SharedBlock> Placement::SharedBlocks() const {
  std::vector<SharedBlock> shared;
  for (size_t index = 0; index < declaration_.dims.size(); ++index) {
    const Dim& dim = declaration_.dims[index];
    const int ranks = dim.axis.empty() ? 1 : mesh_.Size(dim.axis);
    int64_t local = 0;
    for (const Block& block : dim.blocks) {
      if (block.parts < ranks) {
        shared.push_back({static_cast<int>(index), local, LocalSize(block), dim.axis, ranks / block.parts});
      }
      local += LocalSize(block);
    }
  }
  return shared;
}

}  // namespace trireme
