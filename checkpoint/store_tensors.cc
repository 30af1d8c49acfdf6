// The tensors of a checkpoint of ours: weights, and the optimizer's states by "STATE/NAME".
#include "checkpoint/manifest.h"
#include "checkpoint/store_reader.h"
#include "checkpoint/tensor_file.h"

namespace trireme {
namespace {

constexpr std::string_view kWeightsPrefix = "weights/";

class StoreTensors : public TensorFile {
 public:
  explicit StoreTensors(const std::filesystem::path& path) : reader_(path) {}

  std::vector<ListedTensor> List() const override {
    std::vector<ListedTensor> tensors;
    for (const checkpoint::Tensor& tensor : reader_.manifest().tensors()) {
      const std::string& key = tensor.key();
      tensors.push_back({key.starts_with(kWeightsPrefix) ? key.substr(kWeightsPrefix.size()) : key,
                         DTypeFromName(tensor.dtype()), ShapeOf(tensor), tensor.pieces_size()});
    }
    return tensors;
  }

  std::span<const std::byte> Read(const ListedTensor& tensor) override {
    const checkpoint::Tensor* weight = reader_.FindOrNull(std::string(kWeightsPrefix) + tensor.name);
    memory_.resize(static_cast<size_t>(tensor.bytes()));
    reader_.ReadWhole(weight != nullptr ? *weight : reader_.Find(tensor.name), memory_.data());
    return memory_;
  }

 private:
  StoreReader reader_;
  std::vector<std::byte> memory_;
};

}  // namespace

std::unique_ptr<TensorFile> OpenStoreFile(const std::filesystem::path& path) {
  return IsCheckpoint(path) ? std::make_unique<StoreTensors>(path) : nullptr;
}

}  // namespace trireme
