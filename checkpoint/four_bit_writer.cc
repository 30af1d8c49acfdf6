// Matrices in 4 bits as bitsandbytes writes them; packed_tensors.h reads them.
#include <span>
#include <utility>

#include "checkpoint/packed_writer.h"
#include "core/base/error.h"
#include "core/packing/codes.h"
#include "core/packing/pack_codes.h"

namespace trireme {
namespace {

constexpr char kStateScales[] = ".absmax", kStateMap[] = ".quant_map", kStateNestedScales[] = ".nested_absmax",
               kStateNestedMap[] = ".nested_quant_map";
constexpr int64_t kStateBytes =
    320;  // of the JSON, with spaces at its end: its size is planned before its numbers are known

const char* StateTypeName(DType dtype) {
  return dtype == DType::kFp32 ? "float32" : dtype == DType::kFp16 ? "float16" : "bfloat16";
}

std::vector<std::byte> StateBytes(const void* data, size_t size) {
  const auto* first = static_cast<const std::byte*>(data);
  return {first, first + size};
}

std::vector<std::byte> StateBytes(std::span<const float> values) {
  return StateBytes(values.data(), values.size_bytes());
}

class FourBits : public PackedWriter {
 public:
  FourBits(const PackedStorage& storage, MeanOfFloats mean) : storage_(storage), mean_(std::move(mean)) {}

  std::vector<PlannedTensor> TensorsOf(const PlannedTensor& matrix) const override {
    const int64_t blocks = (Elements(matrix.shape) + storage_.block - 1) / storage_.block;
    std::vector<PlannedTensor> tensors = {
        {matrix.name, DType::kUint8, {(Elements(matrix.shape) + 1) / 2, 1}},
        {matrix.name + kStateScales, storage_.nested ? DType::kUint8 : DType::kFp32, {blocks}},
        {matrix.name + kStateMap, DType::kFp32, {16}},
        {matrix.name + ".quant_state.bitsandbytes__" + Name(storage_.kind), DType::kUint8, {kStateBytes}}};
    if (storage_.nested) {
      tensors.push_back(
          {matrix.name + kStateNestedScales, DType::kFp32, {(blocks + kScalesPerBlock - 1) / kScalesPerBlock}});
      tensors.push_back({matrix.name + kStateNestedMap, DType::kFp32, {256}});
    }
    return tensors;
  }

  std::vector<std::byte> BytesOf(const std::string& name, const PlannedTensor& matrix,
                                 const std::vector<float>& values) const override {
    if (name == matrix.name + kStateMap) return StateBytes(ValuesOfCodes(storage_.kind));
    if (name == matrix.name + kStateNestedMap) return StateBytes(DynamicMap(/*negative=*/true));
    std::vector<float> scales;
    AppendBlockScales(values, storage_.block, scales);
    if (name == matrix.name) return Codes(matrix, values, scales);
    if (!storage_.nested) return name == matrix.name + kStateScales ? StateBytes(scales) : State(matrix, 0);
    const NestedScales nested = NestScales(scales, mean_(scales));
    if (name == matrix.name + kStateScales) return StateBytes(nested.codes.data(), nested.codes.size());
    return name == matrix.name + kStateNestedScales ? StateBytes(nested.scales) : State(matrix, nested.offset);
  }

  Json Config(const std::vector<std::string>& skipped, DType compute) const override {
    Json how;
    how["quant_method"] = "bitsandbytes";
    how["load_in_4bit"] = true;
    how["load_in_8bit"] = false;
    how["bnb_4bit_quant_type"] = Name(storage_.kind);
    how["bnb_4bit_use_double_quant"] = storage_.nested;
    how["bnb_4bit_compute_dtype"] = StateTypeName(compute);
    how["bnb_4bit_quant_storage"] = "uint8";
    how["llm_int8_skip_modules"] = skipped;
    return how;
  }

 private:
  std::vector<std::byte> State(const PlannedTensor& matrix, float offset) const {
    Json state;
    state["quant_type"] = Name(storage_.kind);
    state["blocksize"] = storage_.block;
    state["dtype"] = StateTypeName(matrix.dtype);
    state["shape"] = matrix.shape;
    if (storage_.nested) {
      state["nested_blocksize"] = kScalesPerBlock;
      state["nested_dtype"] = "float32";
      state["nested_offset"] = static_cast<double>(offset);
    }
    std::string text = state.dump();
    TRIREME_CHECK(static_cast<int64_t>(text.size()) <= kStateBytes) << text;
    text.resize(kStateBytes, ' ');
    return StateBytes(text.data(), text.size());
  }

  std::vector<std::byte> Codes(const PlannedTensor& matrix, const std::vector<float>& values,
                               const std::vector<float>& scales) const {
    const PackedPart whole = WholeMatrix(matrix.name, matrix.shape[0], matrix.shape[1], storage_);
    std::vector<std::byte> bytes(static_cast<size_t>(whole.run_code_bytes()));
    PackRows(whole, storage_, {.first = 0, .values = values}, scales, reinterpret_cast<uint8_t*>(bytes.data()));
    return bytes;
  }

  const PackedStorage storage_;
  const MeanOfFloats mean_;
};

}  // namespace

std::unique_ptr<PackedWriter> FourBitWriter(const PackedStorage& storage, MeanOfFloats mean) {
  return std::make_unique<FourBits>(storage, std::move(mean));
}

}  // namespace trireme
