// MegatronTensors: the tensors of a Megatron checkpoint by one name each, whatever wrote them: layers are numbered over
// the whole model, experts over all experts, gate stands over up, and pieces of ranks have their place in the whole.
// Both formats are read into it and names.h takes it from there. No Hugging Face names.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/pickle/torch_file.h"
#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

struct MegatronPiece {
  Box box;                              // in the whole tensor
  std::function<StridedTensor()> open;  // its elements, with the box's extent
};

struct MegatronTensor {
  DType dtype = DType::kFp32;
  Shape shape;
  std::vector<MegatronPiece> pieces;
  std::filesystem::path file;  // of the first piece, for messages
};

using MegatronTensors = std::map<std::string, MegatronTensor>;

// Adds a piece; one that is already there from another rank is a copy and left out. Refuses a piece of another type or
// shape than the others.
void AddPiece(MegatronTensors& tensors, const std::string& name, const MegatronTensor& tensor);
// Refuses a tensor of which elements are missing.
void CheckComplete(const MegatronTensors& tensors);
// Copies a box of a tensor to `target`, row-major, which has strides of a tensor of `shape` elements.
void ReadBox(const MegatronTensor& tensor, const Box& box, void* target, const Shape& strides);

// What stands before an expert's number.
inline constexpr std::string_view kMegatronExperts = ".mlp.experts.";

// One name where versions and layer specifications have several: Transformer Engine's norms inside linear modules,
// MindSpeed-LLM's names, a wrapper's "module.".
std::string CommonName(std::string name);
// Without the "module." of wrappers.
std::string WithoutModule(std::string name);
// Whether it is a weight that no optimizer trains: the bias of a router's choice.
bool IsMegatronBuffer(std::string_view name);

}  // namespace trireme
