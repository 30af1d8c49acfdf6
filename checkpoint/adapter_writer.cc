#include "checkpoint/adapter_writer.h"

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/adapter_fusion.h"
#include "checkpoint/elements.h"
#include "checkpoint/memory_names.h"
#include "checkpoint/safetensors_writer.h"
#include "core/base/error.h"
#include "core/io/atomic_file.h"

namespace trireme {
namespace {

// Tensors with the memory that they point to.
class Tensors {
 public:
  explicit Tensors(const AdapterOptions& options) : options_(options) {}

  // Written in the options' dtype if set, otherwise in `own`.
  void Add(const std::string& name, DType dtype, const Shape& shape, const void* data, DType own) {
    const DType wanted = options_.dtype.value_or(own);
    const auto count = static_cast<size_t>(Elements(shape));
    std::vector<std::byte>& memory = memory_.emplace_back(count * static_cast<size_t>(ByteSize(wanted)));
    Convert(dtype, data, wanted, memory.data(), count);
    const int64_t lost = CountNotFinite(wanted, memory.data(), count) - CountNotFinite(dtype, data, count);
    if (lost > 0) {
      throw InputError("tensor '", kAdapterPrefix, name, "': ", lost, " of ", count, " elements are not finite in ",
                       trireme::Name(wanted), "; choose another --dtype, such as bf16");
    }
    tensors_.push_back(
        {kAdapterPrefix + (options_.names_in_memory ? NameInMemory(name) : name), wanted, shape, memory.data()});
  }
  std::vector<TensorToWrite> Take() { return std::move(tensors_); }

 private:
  AdapterOptions options_;
  std::deque<std::vector<std::byte>> memory_;
  std::vector<TensorToWrite> tensors_;
};

bool IsExperts(const std::string& name) {
  return AdapterTensorNamesOf(name) && name.find(".experts.") != std::string::npos;
}

// The dtype of the experts' tensors.
DType TypeOfExperts(const AdapterDirectory& adapter) {
  for (const std::string& name : adapter.Names()) {
    if (IsExperts(name)) return adapter.Describe(name).dtype;
  }
  return DType::kFp32;
}

void AddFused(const FusedAdapter& fused, DType dtype, Tensors& tensors) {
  for (const FusedModule& adapter : fused.adapters) {
    tensors.Add(adapter.a_name, DType::kFp32, adapter.a_shape, adapter.a.data(), dtype);
    tensors.Add(adapter.b_name, DType::kFp32, adapter.b_shape, adapter.b.data(), dtype);
  }
}

}  // namespace

void WriteAdapter(const AdapterDirectory& adapter, const std::filesystem::path& directory,
                  const AdapterOptions& options) {
  Tensors tensors(options);
  const bool fuse = options.fuse_experts;
  for (const std::string& name : adapter.Names()) {
    if (fuse && IsExperts(name)) continue;
    const TensorView& view = adapter.Find(name);
    tensors.Add(fuse ? NameInTransformers(name) : name, view.dtype, view.shape, view.bytes.data(), view.dtype);
    if (adapter.config().ties() && name == kTiedEmbedding) {
      tensors.Add(kTiedHead, view.dtype, view.shape, view.bytes.data(), view.dtype);
    }
  }
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  const Json& own = adapter.config().json();
  std::string config = (options.names_in_memory ? ConfigInMemory(own) : own).dump(2) + "\n";
  if (fuse) {
    const FusedAdapter fused = FuseExperts(adapter);
    AddFused(fused, TypeOfExperts(adapter), tensors);
    metadata[kGateUpKey] = kGateUpBlocks;
    config = fused.config;
  }
  WriteSafetensors(directory / kAdapterWeightsFile, tensors.Take(), metadata);
  WriteAtomicFile(directory / kAdapterConfigFile, config);
}

}  // namespace trireme
