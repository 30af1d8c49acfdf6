// The tensors of a Hugging Face model directory. The last format of the list: refuses what is not one.
#include "checkpoint/hf_directory.h"
#include "checkpoint/tensor_file.h"

namespace trireme {
namespace {

class HfDirectoryTensors : public TensorFile {
 public:
  explicit HfDirectoryTensors(const std::filesystem::path& path) : directory_(path, HfDirectory::Packed::kAsStored) {}

  std::vector<ListedTensor> List() const override {
    std::vector<ListedTensor> tensors;
    for (const std::string& name : directory_.Names()) {
      const TensorView view = directory_.Describe(name);
      tensors.push_back({name, view.dtype, view.shape});
    }
    return tensors;
  }
  std::span<const std::byte> Read(const ListedTensor& tensor) override { return directory_.Find(tensor.name).bytes; }

 private:
  HfDirectory directory_;
};

}  // namespace

std::unique_ptr<TensorFile> OpenHfDirectoryFile(const std::filesystem::path& path) {
  return std::make_unique<HfDirectoryTensors>(path);
}

}  // namespace trireme
