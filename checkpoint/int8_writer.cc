// Matrices in 8 bits as bitsandbytes writes those of LLM.int8: codes under the matrix's own name, the largest magnitude
// of each row as `SCB` and the order of the codes as `weight_format`. packed_tensors.h reads them.
#include <cstring>

#include "checkpoint/elements.h"
#include "checkpoint/packed_tensors.h"
#include "checkpoint/packed_writer.h"
#include "core/base/error.h"
#include "core/packing/pack_codes.h"

namespace trireme {
namespace {

// bitsandbytes rounds to fp16 first.
std::vector<float> RoundedToHalf(const PlannedTensor& matrix, const std::vector<float>& values) {
  std::vector<uint16_t> half(values.size());
  std::vector<float> rounded(values.size());
  Convert(DType::kFp32, values.data(), DType::kFp16, half.data(), values.size());
  Convert(DType::kFp16, half.data(), DType::kFp32, rounded.data(), values.size());
  if (CountNotFinite(DType::kFp32, rounded.data(), rounded.size()) == 0) return rounded;
  throw InputError("tensor '", matrix.name,
                   "' has elements beyond 65504, the largest of fp16, and cannot be packed as int8; use nf4");
}

class Int8Rows : public PackedWriter {
 public:
  std::vector<PlannedTensor> TensorsOf(const PlannedTensor& matrix) const override {
    return {{matrix.name, DType::kInt8, matrix.shape},
            {Int8ScalesName(matrix.name), DType::kFp32, {matrix.shape[0]}},
            {Int8OrderName(matrix.name), DType::kUint8, {}}};
  }

  std::vector<std::byte> BytesOf(const std::string& name, const PlannedTensor& matrix,
                                 const std::vector<float>& values) const override {
    if (name == Int8OrderName(matrix.name)) return {std::byte{0}};  // row after row
    const std::vector<float> rounded = RoundedToHalf(matrix, values);
    std::vector<float> scales;
    AppendBlockScales(rounded, matrix.shape[1], scales);
    std::vector<std::byte> bytes(name == matrix.name ? rounded.size() : scales.size() * sizeof(float));
    if (name == matrix.name) {
      PackRows(WholeMatrix(matrix.name, matrix.shape[0], matrix.shape[1], kInt8Storage), kInt8Storage,
               {.first = 0, .values = rounded}, scales, reinterpret_cast<uint8_t*>(bytes.data()));
    } else {
      std::memcpy(bytes.data(), scales.data(), bytes.size());
    }
    return bytes;
  }

  Json Config(const std::vector<std::string>& skipped, DType /*compute*/) const override {
    Json how;
    how["quant_method"] = "bitsandbytes";
    how["load_in_4bit"] = false;
    how["load_in_8bit"] = true;
    how["llm_int8_threshold"] = 6.0;
    how["llm_int8_has_fp16_weight"] = false;
    how["llm_int8_skip_modules"] = skipped;
    return how;
  }
};

}  // namespace

std::unique_ptr<PackedWriter> Int8Writer() { return std::make_unique<Int8Rows>(); }

}  // namespace trireme
