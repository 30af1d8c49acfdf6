// The tensors of one safetensors file, or of the one in a PEFT directory.
#include <system_error>

#include "checkpoint/adapter_config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_file.h"

namespace trireme {
namespace {

class SafetensorsTensors : public TensorFile {
 public:
  explicit SafetensorsTensors(const std::filesystem::path& path) : file_(path) {}

  std::vector<ListedTensor> List() const override {
    std::vector<ListedTensor> tensors;
    for (const auto& [name, view] : file_.tensors()) tensors.push_back({name, view.dtype, view.shape});
    return tensors;
  }
  std::span<const std::byte> Read(const ListedTensor& tensor) override { return file_.tensors().at(tensor.name).bytes; }

 private:
  SafetensorsFile file_;
};

}  // namespace

std::unique_ptr<TensorFile> OpenSafetensorsFile(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) return std::make_unique<SafetensorsTensors>(path);
  const std::filesystem::path adapter = path / kAdapterWeightsFile;
  return std::filesystem::exists(adapter, ignored) ? std::make_unique<SafetensorsTensors>(adapter) : nullptr;
}

}  // namespace trireme
