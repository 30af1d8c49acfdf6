#include "checkpoint/megatron/placement.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kLocal = "local_experts.";

struct ExpertName {
  std::string layer;  // "decoder.layers.3"
  int64_t number;     // among the rank's
  std::string rest;   // "linear_fc1.weight"
};

std::optional<int64_t> NumberAt(std::string_view text, size_t& end) {
  int64_t number = 0;
  const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  end = static_cast<size_t>(last - text.data());
  return number;
}

// "….mlp.experts.local_experts.3.linear_fc1.weight" and "….mlp.experts.linear_fc1.weight3".
std::optional<ExpertName> ExpertOf(const std::string& name) {
  const size_t at = name.find(kMegatronExperts);
  if (at == std::string::npos) return std::nullopt;
  const std::string layer = name.substr(0, at), rest = name.substr(at + kMegatronExperts.size());
  size_t end = 0;
  if (rest.starts_with(kLocal)) {
    const std::string numbered = rest.substr(kLocal.size());
    if (const auto number = NumberAt(numbered, end); number && end + 1 < numbered.size())
      return ExpertName{layer, *number, numbered.substr(end + 1)};
    return std::nullopt;
  }
  const size_t digits = rest.find_last_not_of("0123456789") + 1;
  if (digits == rest.size()) return std::nullopt;
  const std::string number = rest.substr(digits);
  return ExpertName{layer, NumberAt(number, end).value_or(0), rest.substr(0, digits)};
}

Box Whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

MegatronPiece PieceAt(const Box& box, const StridedTensor& view) {
  return {box, [view] { return view; }};
}

// The part of `parts` that is `part`, along one dim.
MegatronTensor Split(const StridedTensor& local, size_t dim, int64_t part, int64_t parts) {
  MegatronTensor tensor{local.dtype, local.shape, {}, {}};
  Box box = Whole(local.shape);
  if (parts == 1) {
    tensor.pieces.push_back(PieceAt(box, local));
    return tensor;
  }
  box.offset[dim] = part * local.shape[dim];
  tensor.shape[dim] *= parts;
  tensor.pieces.push_back(PieceAt(box, local));
  return tensor;
}

// Rows [gate of this rank; up of this rank] to their places in [gate; up].
MegatronTensor SplitHalves(const StridedTensor& local, int64_t part, int64_t parts) {
  MegatronTensor tensor{local.dtype, local.shape, {}, {}};
  tensor.shape[0] *= parts;
  const int64_t rows = local.shape[0] / 2;
  for (int64_t half = 0; half < 2; ++half) {
    StridedTensor view = local;
    view.shape[0] = rows;
    view.data = static_cast<const std::byte*>(local.data) + half * rows * local.strides[0] * ByteSize(local.dtype);
    Box box = Whole(view.shape);
    box.offset[0] = half * rows * parts + part * rows;
    tensor.pieces.push_back(PieceAt(box, view));
  }
  return tensor;
}

MegatronTensor SplitBy(MegatronSplit split, const StridedTensor& local, int64_t part, int64_t parts) {
  switch (split) {
    case MegatronSplit::kRows:
      return Split(local, 0, part, parts);
    case MegatronSplit::kColumns:
      return Split(local, 1, part, parts);
    case MegatronSplit::kHalves:
      return SplitHalves(local, part, parts);
    case MegatronSplit::kNone:
      break;
  }
  return Split(local, 0, 0, 1);
}

int64_t GlobalExpert(int64_t local, int64_t local_experts, const MegatronLayout& layout, const MegatronRank& rank) {
  const int64_t group = layout.tensor_extends_expert ? rank.expert * layout.tensor + rank.tensor : rank.expert;
  return group * local_experts + local;
}

// GroupedMLP has all experts of the rank in one tensor, transposed: in memory [experts][hidden][gate | up] and
// [experts][ffn][hidden], whatever its shape says.
StridedTensor OneOfGrouped(const StridedTensor& all, bool first, int64_t expert, int64_t experts) {
  const int64_t inputs = first ? all.shape[0] : all.shape[0] / experts;
  const int64_t outputs = first ? all.shape[1] / experts : all.shape[1];
  return {all.dtype,
          {outputs, inputs},
          {1, outputs},
          static_cast<const std::byte*>(all.data) + expert * inputs * outputs * ByteSize(all.dtype)};
}

void RefuseShape(const std::string& name, const StridedTensor& local, const std::filesystem::path& file,
                 const MegatronLayout& layout) {
  const MegatronSplit split = SplitOf(name, layout);
  const size_t dims = split == MegatronSplit::kColumns ? 2 : split == MegatronSplit::kNone ? 0 : 1;
  const bool odd = split == MegatronSplit::kHalves && !local.shape.empty() && local.shape[0] % 2 != 0;
  if (local.shape.size() < dims || odd)
    throw InputError(file.string(), ": '", name, "' has the shape ", ShapeText(local.shape),
                     ", which is not split over ranks");
}

}  // namespace

MegatronSplit SplitOf(const std::string& name, const MegatronLayout& layout) {
  const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
  if (ends("linear_fc1.weight") || ends("linear_fc1.bias")) return MegatronSplit::kHalves;
  if (ends("linear_fc2.weight") || ends("linear_proj.weight")) return MegatronSplit::kColumns;
  if (ends("linear_qkv.weight") || ends("linear_qkv.bias"))
    return layout.latent_attention ? MegatronSplit::kNone : MegatronSplit::kRows;
  for (const std::string_view rows : {"word_embeddings.weight", "output_layer.weight", "linear_q_proj.weight",
                                      "linear_q_up_proj.weight", "linear_kv_up_proj.weight", "eh_proj.weight"}) {
    if (ends(rows)) return MegatronSplit::kRows;
  }
  return MegatronSplit::kNone;
}

std::vector<Box> PartBoxes(MegatronSplit split, const Shape& shape, int64_t part, int64_t parts) {
  Box box = Whole(shape);
  if (split == MegatronSplit::kNone || parts == 1) return {box};
  const size_t dim = split == MegatronSplit::kColumns ? 1 : 0;
  const int64_t halves = split == MegatronSplit::kHalves ? 2 : 1;
  box.extent[dim] = shape[dim] / (halves * parts);
  std::vector<Box> boxes;
  for (int64_t half = 0; half < halves; ++half) {
    box.offset[dim] = (half * parts + part) * box.extent[dim];
    boxes.push_back(box);
  }
  return boxes;
}

void PlaceTensor(const std::string& name, const StridedTensor& local, const std::filesystem::path& file,
                 const MegatronLayout& layout, const MegatronRank& rank, int64_t local_experts,
                 MegatronTensors& tensors) {
  RefuseShape(name, local, file, layout);
  const auto add = [&](const std::string& whole_name, MegatronTensor tensor) {
    tensor.file = file;
    AddPiece(tensors, whole_name, tensor);
  };
  const auto add_expert = [&](const std::string& layer, int64_t number, const std::string& rest,
                              const StridedTensor& view) {
    const int64_t expert = GlobalExpert(number, local_experts, layout, rank);
    const bool whole = layout.expert_tensor == 1 || layout.tensor_extends_expert;
    add(Concat(layer, kMegatronExperts, expert, ".", rest),
        SplitBy(SplitOf(rest, layout), view, whole ? 0 : rank.tensor, whole ? 1 : layout.tensor));
  };
  const size_t experts_at = name.find(kMegatronExperts);
  const std::string grouped = experts_at == std::string::npos ? "" : name.substr(experts_at + kMegatronExperts.size());
  if (grouped == "weight1" || grouped == "weight2") {
    const bool first = grouped == "weight1";
    if (local_experts < 1 || local.shape.size() != 2 || local.strides != RowMajorStrides(local.shape) ||
        local.shape[first ? 1 : 0] % local_experts != 0)
      throw InputError(file.string(), ": '", name, "' has the shape ", ShapeText(local.shape),
                       ", which does not divide over ", local_experts, " experts");
    for (int64_t expert = 0; expert < local_experts; ++expert) {
      add_expert(name.substr(0, experts_at), expert, first ? "linear_fc1.weight" : "linear_fc2.weight",
                 OneOfGrouped(local, first, expert, local_experts));
    }
  } else if (const auto expert = ExpertOf(name)) {
    add_expert(expert->layer, expert->number, expert->rest, local);
  } else {
    add(name, SplitBy(SplitOf(name, layout), local, rank.tensor, layout.tensor));
  }
}

}  // namespace trireme
