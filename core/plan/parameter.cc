#include "core/plan/parameter.h"

#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

Shape GlobalShapeOf(const ParameterDeclaration& declaration) {
  Shape shape;
  for (const Dim& dim : declaration.dims) {
    int64_t size = 0;
    for (const Block& block : dim.blocks) size += block.size;
    shape.push_back(size);
  }
  return shape;
}

// Strides of the file tensor by dim of the parameter: 0 for a dim that is missing in the file.
Shape FileStrides(const HfTensor& tensor) {
  const size_t dims = tensor.box.extent.size();
  Shape in_box = RowMajorStrides(tensor.box.extent);
  if (!tensor.transposed) return in_box;
  TRIREME_CHECK(dims >= 2) << tensor.name << " has fewer than two dims to swap";
  in_box[dims - 2] = 1;
  in_box[dims - 1] = tensor.box.extent[dims - 2];
  return in_box;
}

int64_t OffsetOf(const Shape& index, const Shape& strides) {
  int64_t sum = 0;
  for (size_t dim = 0; dim < index.size(); ++dim) sum += index[dim] * strides[dim];
  return sum;
}

Shape Minus(Shape a, const Shape& b) {
  for (size_t dim = 0; dim < a.size(); ++dim) a[dim] -= b[dim];
  return a;
}

void AppendCopies(const std::vector<HfTensor>& stored, const LocalBox& held, const Shape& local_strides,
                  std::vector<SliceCopy>& copies) {
  for (const HfTensor& tensor : stored) {
    const auto common = Intersect(held.global, tensor.box);
    if (!common) continue;
    const Shape file_strides = FileStrides(tensor);
    SliceCopy copy;
    copy.source = &tensor;
    copy.extent = common->extent;
    copy.file_strides = file_strides;
    copy.file_offset = OffsetOf(Minus(common->offset, tensor.box.offset), file_strides);
    copy.local_strides = local_strides;
    copy.local_offset =
        OffsetOf(held.local_offset, local_strides) + OffsetOf(Minus(common->offset, held.global.offset), local_strides);
    copy.replica = held.replica;
    copies.push_back(std::move(copy));
  }
}

}  // namespace

Parameter PlainParameter(ParameterDeclaration declaration, const std::string& hf_name, Initial initial) {
  const Shape shape = GlobalShapeOf(declaration);
  return {std::move(declaration), {{hf_name, shape, {Shape(shape.size(), 0), shape}}}, initial};
}

Parameter StackedParameter(ParameterDeclaration declaration, const std::vector<std::string>& hf_names,
                           Initial initial) {
  Shape extent = GlobalShapeOf(declaration);
  const std::vector<Block>& blocks = declaration.dims.at(0).blocks;
  TRIREME_CHECK(blocks.size() == hf_names.size())
      << declaration.name << " has " << blocks.size() << " blocks and " << hf_names.size() << " names";
  std::vector<HfTensor> tensors;
  Shape offset(extent.size(), 0);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0 && hf_names[i] == hf_names[i - 1]) {  // one tensor in the files, too
      tensors.back().shape[0] += blocks[i].size;
      tensors.back().box.extent[0] += blocks[i].size;
    } else {
      extent[0] = blocks[i].size;
      tensors.push_back({hf_names[i], extent, {offset, extent}});
    }
    offset[0] += blocks[i].size;
  }
  return {std::move(declaration), std::move(tensors), initial};
}

std::vector<SliceCopy> BoxCopies(const std::vector<HfTensor>& stored, const Box& wanted) {
  std::vector<SliceCopy> copies;
  AppendCopies(stored, {.global = wanted, .local_offset = Shape(wanted.extent.size(), 0)},
               RowMajorStrides(wanted.extent), copies);
  return copies;
}

std::vector<SliceCopy> SliceCopies(const Parameter& parameter, const Placement& placement, int rank) {
  const Shape local_strides = RowMajorStrides(placement.LocalShape());
  std::vector<SliceCopy> copies;
  for (const LocalBox& held : placement.LocalBoxes(rank)) AppendCopies(parameter.hf, held, local_strides, copies);
  return copies;
}

}  // namespace trireme
