#include "checkpoint/packed_files.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/packing/codes.h"
#include "core/packing/pack_codes.h"

namespace trireme {
namespace {

constexpr char kScales[] = ".absmax", kMap[] = ".quant_map", kNestedScales[] = ".nested_absmax", kNestedMap[] = ".nested_quant_map";
constexpr int64_t kStateBytes = 320;  // of the JSON, with spaces at its end: its size is planned before its numbers are known

const char* KindName(const PackedStorage& storage) { return storage.kind == PackedStorage::Kind::kNf4 ? "nf4" : "fp4"; }

std::string StateName(const std::string& matrix, const PackedStorage& storage) {
  return matrix + ".quant_state.bitsandbytes__" + KindName(storage);
}

const char* TorchName(DType dtype) {
  return dtype == DType::kFp32 ? "float32" : dtype == DType::kFp16 ? "float16" : "bfloat16";
}

int64_t BlocksOf(const PlannedTensor& matrix, const PackedStorage& storage) {
  return (Elements(matrix.shape) + storage.block - 1) / storage.block;
}

std::vector<std::byte> BytesOf(const void* data, size_t size) {
  const auto* first = static_cast<const std::byte*>(data);
  return {first, first + size};
}

std::vector<std::byte> BytesOf(std::span<const float> values) { return BytesOf(values.data(), values.size_bytes()); }

std::vector<std::byte> StateBytes(const PlannedTensor& matrix, const PackedStorage& storage, float offset) {
  Json state;
  state["quant_type"] = KindName(storage);
  state["blocksize"] = storage.block;
  state["dtype"] = TorchName(matrix.dtype);
  state["shape"] = matrix.shape;
  if (storage.nested) {
    state["nested_blocksize"] = kScalesPerBlock;
    state["nested_dtype"] = "float32";
    state["nested_offset"] = static_cast<double>(offset);
  }
  std::string text = state.dump();
  TRIREME_CHECK(static_cast<int64_t>(text.size()) <= kStateBytes) << text;
  text.resize(kStateBytes, ' ');
  return BytesOf(text.data(), text.size());
}

std::vector<std::byte> CodeBytes(const PlannedTensor& matrix, const PackedStorage& storage, const std::vector<float>& values,
                                 const std::vector<float>& scales) {
  PackedPart whole{.name = matrix.name,
                   .matrix_rows = matrix.shape[0],
                   .matrix_columns = matrix.shape[1],
                   .rows = matrix.shape[0],
                   .columns = matrix.shape[1],
                   .local_stride = matrix.shape[1]};
  std::vector<std::byte> bytes(static_cast<size_t>(whole.run_code_bytes()));
  PackRows(whole, storage, {.first = 0, .values = values}, scales, reinterpret_cast<uint8_t*>(bytes.data()));
  return bytes;
}

}  // namespace

std::vector<PlannedTensor> PackedTensorsOf(const PlannedTensor& matrix, const PackedStorage& storage) {
  const int64_t blocks = BlocksOf(matrix, storage);
  std::vector<PlannedTensor> tensors = {
      {matrix.name, DType::kUint8, {(Elements(matrix.shape) + 1) / 2, 1}},
      {matrix.name + kScales, storage.nested ? DType::kUint8 : DType::kFp32, {blocks}},
      {matrix.name + kMap, DType::kFp32, {16}},
      {StateName(matrix.name, storage), DType::kUint8, {kStateBytes}}};
  if (storage.nested) {
    tensors.push_back({matrix.name + kNestedScales, DType::kFp32, {(blocks + kScalesPerBlock - 1) / kScalesPerBlock}});
    tensors.push_back({matrix.name + kNestedMap, DType::kFp32, {256}});
  }
  return tensors;
}

std::vector<std::byte> PackedBytes(const std::string& name, const PlannedTensor& matrix, const std::vector<float>& values,
                                   const PackOptions& options) {
  const PackedStorage& storage = options.storage;
  if (name == matrix.name + kMap) return BytesOf(ValuesOfCodes(storage.kind));
  if (name == matrix.name + kNestedMap) return BytesOf(DynamicMap(/*negative=*/true));
  std::vector<float> scales;
  AppendBlockScales(values, storage.block, scales);
  if (name == matrix.name) return CodeBytes(matrix, storage, values, scales);
  if (!storage.nested) return name == matrix.name + kScales ? BytesOf(scales) : StateBytes(matrix, storage, 0);
  const NestedScales nested = NestScales(scales, options.mean(scales));
  if (name == matrix.name + kScales) return BytesOf(nested.codes.data(), nested.codes.size());
  return name == matrix.name + kNestedScales ? BytesOf(nested.scales) : StateBytes(matrix, storage, nested.offset);
}

std::string PackedConfig(const std::string& text, const std::string& where, const PackOptions& options, DType compute) {
  Json config = ParseJson(text, where);
  if (!config.is_object()) throw InputError(where, ": is not a JSON object");
  Json how;
  how["quant_method"] = "bitsandbytes";
  how["load_in_4bit"] = true;
  how["load_in_8bit"] = false;
  how["bnb_4bit_quant_type"] = KindName(options.storage);
  how["bnb_4bit_use_double_quant"] = options.storage.nested;
  how["bnb_4bit_compute_dtype"] = TorchName(compute);
  how["bnb_4bit_quant_storage"] = "uint8";
  how["llm_int8_skip_modules"] = options.skipped;
  config["quantization_config"] = how;
  return config.dump(2) + "\n";
}

}  // namespace trireme
