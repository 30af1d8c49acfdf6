#include "parallel/graph/low_rank.h"

#include <cmath>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr char kWeight[] = ".weight";

std::string WithoutWeight(const std::string& name) {
  TRIREME_CHECK(name.ends_with(kWeight)) << name << " is not a weight";
  return name.substr(0, name.size() - (sizeof(kWeight) - 1));
}

int64_t SizeOf(const Dim& dim) {
  int64_t size = 0;
  for (const Block& block : dim.blocks) size += block.size;
  return size;
}

// Like the base except for its last two dims; if the base is split over the axis of `other`, each rank has
// only a part of the gradient.
ParameterDeclaration Beside(const ParameterDeclaration& base, const std::string& ending, Dim rows, Dim columns,
                            const Dim& other) {
  ParameterDeclaration declaration = base;
  declaration.name = WithoutWeight(base.name) + ending;
  const size_t dims = base.dims.size();
  declaration.dims[dims - 2] = std::move(rows);
  declaration.dims[dims - 1] = std::move(columns);
  if (!other.axis.empty()) declaration.partial_gradient.push_back(other.axis);
  return declaration;
}

// The adapter's file tensor for one file tensor of the base: one expert, one block.
HfTensor FileTensor(const HfTensor& base, const char* ending, int64_t first_row, int64_t rows, int64_t columns) {
  HfTensor tensor{WithoutWeight(base.name) + ending, {rows, columns}, base.box};
  const size_t dims = base.box.extent.size();
  tensor.box.offset[dims - 2] = first_row;
  tensor.box.extent[dims - 2] = rows;
  tensor.box.extent[dims - 1] = columns;
  return tensor;
}

// The lengths of a projection's outputs, one for each: split like B's outputs, its gradient as partial as B's.
Parameter Magnitude(const Parameter& base, const Dim& own, size_t block, size_t blocks) {
  const std::vector<Dim>& dims = base.declaration.dims;
  TRIREME_CHECK(dims.size() == 2) << base.declaration.name << ": magnitudes of a stack";
  Parameter magnitude{Beside(base.declaration, Concat(".lora_m.", block), own, {}, dims.back()),
                      {},
                      {Initial::Kind::kZeros}};  // until the weight is there
  magnitude.declaration.dims.pop_back();
  magnitude.added = true;
  for (size_t file = block; file < base.hf.size(); file += blocks) {
    const int64_t out = base.hf[file].shape.front();
    magnitude.hf.push_back({WithoutWeight(base.hf[file].name) + ".lora_magnitude_vector", {out}, {{0}, {out}}});
  }
  return magnitude;
}

}  // namespace

std::vector<Parameter> LowRankAdapters(const Parameter& base, const std::vector<LowRank>& parts) {
  const ParameterDeclaration& declaration = base.declaration;
  const size_t dims = declaration.dims.size();
  const Dim &outputs = declaration.dims[dims - 2], &inputs = declaration.dims[dims - 1];
  const bool fused = parts.size() == 1;  // of all blocks one
  TRIREME_CHECK((fused || outputs.blocks.size() == parts.size()) && base.hf.size() % parts.size() == 0)
      << declaration.name << " has " << outputs.blocks.size() << " blocks and " << parts.size() << " parts";
  const int64_t in = SizeOf(inputs);
  int64_t all_ranks = 0;
  for (const LowRank& part : parts) all_ranks += part.rank;
  Parameter a{Beside(declaration, ".lora_a", WholeDim(all_ranks), inputs, outputs),
              {},
              {Initial::Kind::kUniform, 1.0 / std::sqrt(static_cast<double>(in))}};
  a.added = true;
  std::vector<Parameter> adapters, magnitudes;
  int64_t first_rank = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t rank = parts[i].rank;
    if (rank == 0) continue;
    const Dim own{outputs.axis, fused ? outputs.blocks : std::vector{outputs.blocks[i]}};
    const int64_t out = SizeOf(own);
    Parameter b{Beside(declaration, Concat(".lora_b.", i), own, WholeDim(rank), inputs), {}, {Initial::Kind::kZeros}};
    b.added = true;
    for (size_t file = i; file < base.hf.size(); file += parts.size()) {  // one each, or one per expert
      a.hf.push_back(FileTensor(base.hf[file], ".lora_A.weight", first_rank, rank, in));
      b.hf.push_back(FileTensor(base.hf[file], ".lora_B.weight", 0, out, rank));
    }
    first_rank += rank;
    adapters.push_back(std::move(b));
    if (parts[i].magnitude) magnitudes.push_back(Magnitude(base, own, i, parts.size()));
  }
  adapters.insert(adapters.begin(), std::move(a));
  adapters.insert(adapters.end(), magnitudes.begin(), magnitudes.end());
  return adapters;
}

}  // namespace trireme
