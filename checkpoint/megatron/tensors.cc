#include "checkpoint/megatron/tensors.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "checkpoint/elements.h"
#include "core/base/error.h"

namespace trireme {
namespace {

constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"self_attention.linear_qkv.layer_norm_", "input_layernorm."},
    {"self_attention.linear_q_proj.layer_norm_", "input_layernorm."},
    {"self_attention.linear_q_down_proj.layer_norm_", "input_layernorm."},
    {"self_attention.linear_qkv_down_proj.layer_norm_", "input_layernorm."},
    {"self_attention.linear_q_up_proj.layer_norm_", "self_attention.q_layernorm."},
    {"self_attention.linear_kv_up_proj.layer_norm_", "self_attention.kv_layernorm."},
    {"mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm."},
    {"linear_qb.", "linear_q_up_proj."},
    {"linear_kvb.", "linear_kv_up_proj."},
    {"mtp_model_layer.", "transformer_layer."},
    {"mlp.experts.experts.", "mlp.experts."}};

int64_t StrideOffset(const Shape& offset, const Shape& strides) {
  int64_t elements = 0;
  for (size_t d = 0; d < offset.size(); ++d) elements += offset[d] * strides[d];
  return elements;
}

Shape Minus(Shape a, const Shape& b) {
  for (size_t d = 0; d < a.size(); ++d) a[d] -= b[d];
  return a;
}

}  // namespace

std::string WithoutModule(std::string name) {
  while (name.starts_with("module.")) name.erase(0, 7);
  return name;
}

bool IsMegatronBuffer(std::string_view name) { return name.ends_with(".expert_bias"); }

std::string CommonName(std::string name) {
  name = WithoutModule(std::move(name));
  if (name == "final_layernorm.weight") name = "decoder.final_layernorm.weight";
  if (const std::string_view old = "mtp.final_layernorms."; name.starts_with(old)) {
    const size_t dot = name.find('.', old.size());
    if (dot != std::string::npos)
      name = "mtp.layers." + name.substr(old.size(), dot - old.size()) + ".final_layernorm" + name.substr(dot);
  }
  for (const auto& [from, to] : kRenamed) {
    if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
  }
  return name;
}

void AddPiece(MegatronTensors& tensors, const std::string& name, const MegatronTensor& tensor) {
  const auto [found, is_new] = tensors.try_emplace(name, tensor);
  if (is_new) return;
  MegatronTensor& known = found->second;
  if (known.dtype != tensor.dtype || known.shape != tensor.shape) {
    throw InputError(tensor.file.string(), ": '", name, "' is a part of ", ShapeText(tensor.shape), " in ",
                     Name(tensor.dtype), ", and ", known.file.string(), " has a part of ", ShapeText(known.shape),
                     " in ", Name(known.dtype), "; the files are not of one checkpoint");
  }
  for (const MegatronPiece& piece : tensor.pieces) {
    const auto same = [&](const MegatronPiece& other) { return other.box == piece.box; };
    if (std::ranges::none_of(known.pieces, same)) known.pieces.push_back(piece);
  }
}

void CheckComplete(const MegatronTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    int64_t covered = 0;
    for (const MegatronPiece& piece : tensor.pieces) covered += piece.box.elements();
    if (covered == Elements(tensor.shape)) continue;
    throw InputError(tensor.file.string(), ": of '", name, "' ", covered, " of ", Elements(tensor.shape),
                     " elements are there; files of other ranks are missing");
  }
}

void ReadBox(const MegatronTensor& tensor, const Box& box, void* target, const Shape& strides) {
  for (const MegatronPiece& piece : tensor.pieces) {
    const std::optional<Box> common = Intersect(piece.box, box);
    if (!common) continue;
    const StridedTensor view = piece.open();
    const int64_t from = StrideOffset(Minus(common->offset, piece.box.offset), view.strides);
    const int64_t to = StrideOffset(Minus(common->offset, box.offset), strides);
    CopyBox(common->extent, {view.dtype, Advance(view.data, view.dtype, from), view.strides},
            {tensor.dtype, Advance(target, tensor.dtype, to), strides});
  }
}

}  // namespace trireme
