#include "checkpoint/megatron/written_model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "checkpoint/elements.h"
#include "checkpoint/megatron/layer_numbers.h"
#include "core/base/error.h"
#include "core/base/rounding.h"

namespace trireme {
namespace {

bool IsWritable(DType dtype) {
  return dtype == DType::kFp64 || dtype == DType::kFp32 || dtype == DType::kFp16 || dtype == DType::kBf16;
}

std::string ConfigPath(const HfDirectory& source) { return (source.model_files() / "config.json").string(); }

int64_t OffsetIn(const Shape& index, const Shape& strides) {
  int64_t elements = 0;
  for (size_t d = 0; d < index.size(); ++d) elements += index[d] * strides[d];
  return elements;
}

}  // namespace

WrittenModel::WrittenModel(const HfDirectory& source, const MegatronExport& options)
    : source_(source),
      options_(options),
      config_(ParseJson(options.config, ConfigPath(source))),
      names_(config_, ConfigPath(source)) {
  FindTensors();
  for (const WrittenTensor& tensor : tensors_) {
    std::string rest = tensor.name;
    const auto layer = NumberAfter(tensor.name, kDecoder, rest);
    const auto mtp = NumberAfter(tensor.name, kMtp, rest);
    if (mtp) mtp_layers_ = std::max(mtp_layers_, *mtp + 1);
    if (!tensor.name.ends_with(".mlp.router.weight") || !(layer || mtp)) continue;
    layers_with_experts_.insert(layer ? *layer : names_.layers() + *mtp);
    experts_ = tensor.shape[0];
  }
}

// Copies that Megatron does not have are left out where they are copies.
void WrittenModel::FindTensors() {
  std::map<std::string, Shape> shapes;
  for (const std::string& name : source_.Names()) {
    const std::string original = names_.OriginalOf(name);
    if (original.empty()) {
      shapes[name] = source_.Describe(name).shape;
    } else if (name != kHfHead) {  // a tied model never reads its own head
      RefuseOtherCopy(name, original);
    }
  }
  const int64_t rows = RoundUp(names_.vocabulary(), options_.vocabulary_divisor * options_.layout.tensor);
  for (MegatronTarget& target : names_.FromHuggingFace(shapes, rows)) {
    const DType dtype = TypeOf(target.parts.front().hf_name);
    tensors_.push_back({std::move(target.name), dtype, std::move(target.shape), std::move(target.parts)});
  }
}

void WrittenModel::RefuseOtherCopy(const std::string& copy, const std::string& original) const {
  const TensorView view = source_.Find(copy);
  const std::vector<std::byte> bytes(view.bytes.begin(), view.bytes.end());
  const TensorView& other = source_.Find(original);
  if (view.dtype == other.dtype && std::ranges::equal(bytes, other.bytes)) return;
  throw InputError(source_.FileOf(copy).string(), ": '", copy, "' is not equal to '", original,
                   "', and Megatron has one tensor for both");
}

DType WrittenModel::TypeOf(const std::string& hf_name) const {
  const DType own = source_.Describe(hf_name).dtype;
  if (!IsWritable(own))
    throw InputError(source_.FileOf(hf_name).string(), ": '", hf_name, "' is in ", Name(own),
                     "; Megatron's checkpoints are written from bf16, fp16 or fp32");
  return options_.dtype.value_or(own);
}

const WrittenTensor* WrittenModel::Find(const std::string& name) const {
  const auto found = std::ranges::find(tensors_, name, &WrittenTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

// Those rows of the part that are in the box.
void WrittenModel::ReadPart(const WrittenTensor& tensor, const NamedRows& part, const Box& box, void* target) const {
  const Shape strides = RowMajorStrides(box.extent);
  const TensorView* view = nullptr;
  for (const RowRange& range : part.ranges) {
    const int64_t first = std::max(range.from, box.offset[0]);
    const int64_t last = std::min(range.from + range.rows, box.offset[0] + box.extent[0]);
    if (first >= last) continue;
    if (view == nullptr) view = &source_.Find(part.hf_name);
    Shape extent = box.extent, from = box.offset;
    extent[0] = last - first;
    from[0] = range.to + first - range.from;
    const Shape source_strides = RowMajorStrides(view->shape);
    CopyBox(extent,
            {view->dtype, Advance(view->bytes.data(), view->dtype, OffsetIn(from, source_strides)), source_strides},
            {tensor.dtype, Advance(target, tensor.dtype, (first - box.offset[0]) * strides[0]), strides});
  }
  if (view != nullptr) source_.Release(part.hf_name);
}

std::vector<std::byte> WrittenModel::Read(const WrittenTensor& tensor, const std::vector<Box>& boxes) const {
  int64_t elements = 0;
  for (const Box& box : boxes) elements += box.elements();
  std::vector<std::byte> memory(static_cast<size_t>(elements * ByteSize(tensor.dtype)));
  std::byte* next = memory.data();
  for (const Box& box : boxes) {
    for (const NamedRows& part : tensor.parts) ReadPart(tensor, part, box, next);
    next += box.elements() * ByteSize(tensor.dtype);
  }
  const int64_t lost = options_.dtype ? CountNotFinite(tensor.dtype, memory.data(), static_cast<size_t>(elements)) : 0;
  if (lost == 0) return memory;
  const std::string& hf_name = tensor.parts.front().hf_name;
  throw InputError(source_.FileOf(hf_name).string(), ": tensor '", hf_name, "': ", lost, " elements of Megatron's '",
                   tensor.name, "' are not finite in ", Name(tensor.dtype), "; choose another --dtype, such as bf16");
}

}  // namespace trireme
