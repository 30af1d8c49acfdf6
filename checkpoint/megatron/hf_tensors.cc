#include "checkpoint/megatron/hf_tensors.h"

#include <utility>

#include "checkpoint/elements.h"
#include "core/base/error.h"

namespace trireme {

HfTensors::HfTensors(const MegatronTensors& tensors, const MegatronNames& names, Layers wanted) {
  for (const auto& [name, tensor] : tensors) {
    for (NamedRows& rows : names.ToHuggingFace(name, tensor.shape)) {
      std::string hf_name = rows.hf_name;
      parts_.emplace(std::move(hf_name), Part{name, &tensor, std::move(rows)});
    }
  }
  if (wanted == Layers::kAny) return;
  int64_t layers = 0;
  while (tensors.contains(Concat("decoder.layers.", layers, ".input_layernorm.weight"))) ++layers;
  if (layers == names.layers()) return;
  throw InputError(tensors.begin()->second.file.string(), ": the checkpoint has ", layers,
                   " layers, and config.json says ", names.layers(),
                   "; use the config.json of this checkpoint's model");
}

std::vector<std::string> HfTensors::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, part] : parts_) names.push_back(name);
  return names;
}

Shape HfTensors::shape(const std::string& name) const {
  const Part& part = parts_.at(name);
  Shape shape = part.tensor->shape;
  shape[0] = part.rows.rows;
  return shape;
}

void HfTensors::Read(const std::string& name, void* target) const {
  const Part& part = parts_.at(name);
  const Shape strides = RowMajorStrides(shape(name));
  for (const RowRange& range : part.rows.ranges) {
    Box box{Shape(part.tensor->shape.size(), 0), part.tensor->shape};
    box.offset[0] = range.from;
    box.extent[0] = range.rows;
    ReadBox(*part.tensor, box, Advance(target, part.tensor->dtype, range.to * strides[0]), strides);
  }
}

}  // namespace trireme
