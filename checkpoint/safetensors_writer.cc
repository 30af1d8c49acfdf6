#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "core/base/error.h"
#include "core/io/atomic_file.h"

namespace trireme {
namespace {

uint64_t Bytes(const TensorToWrite& tensor) {
  return static_cast<uint64_t>(Elements(tensor.shape)) * static_cast<uint64_t>(ByteSize(tensor.dtype));
}

std::string MakeHeader(const std::vector<TensorToWrite>& tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    TRIREME_CHECK(!header.contains(tensor.name)) << "tensor '" << tensor.name << "' is written twice";
    const uint64_t end = offset + Bytes(tensor);
    header[tensor.name] = {
        {"dtype", SafetensorsName(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns the start of the buffer
  return text;
}

}  // namespace

std::string SafetensorsHeader(std::vector<TensorToWrite>& tensors, const std::map<std::string, std::string>& metadata) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    const int64_t a_size = ByteSize(a.dtype), b_size = ByteSize(b.dtype);
    return a_size != b_size ? a_size > b_size : a.name < b.name;
  });
  const std::string header = MakeHeader(tensors, metadata);
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header;
}

void WriteSafetensors(const std::filesystem::path& path, std::vector<TensorToWrite> tensors,
                      const std::map<std::string, std::string>& metadata) {
  const std::string header = SafetensorsHeader(tensors, metadata);
  AtomicFile file(path);
  file.Write(header.data(), header.size());
  for (const TensorToWrite& tensor : tensors) file.Write(tensor.data, Bytes(tensor));
  file.Commit();
}

}  // namespace trireme
