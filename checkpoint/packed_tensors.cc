#include "checkpoint/packed_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "checkpoint/elements.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/packing/codes.h"

namespace trireme {
namespace {

constexpr std::string_view kState = ".quant_state.bitsandbytes__";
constexpr std::array<std::string_view, 4> kParts = {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"};
constexpr std::string_view kWeight = ".weight", kInt8Scales = ".SCB", kInt8Order = ".weight_format";
constexpr float kSameValue = 1e-6F;  // of tables that were computed elsewhere

void RefuseNotFinite(const std::vector<float>& scales, const std::string& name, const std::string& file) {
  for (size_t i = 0; i < scales.size(); ++i) {
    if (std::isfinite(scales[i])) continue;
    throw InputError(file, ": '", name, "' has ", scales[i], " as element ", i, " of ", scales.size(),
                     "; the file is damaged or the model diverged");
  }
}

// What the directory says about one matrix.
class PackedReader {
 public:
  PackedReader(const std::string& name, const std::string& where, const FindTensor& find)
      : name_(name), where_(where), find_(find) {}

  TensorView Part(const std::string& suffix, DType dtype, int64_t count) const {
    const auto found = find_(name_ + suffix);
    if (!found)
      throw InputError(where_, ": '", name_, suffix, "' is missing: the packed '", name_,
                       "' cannot be decoded without it");
    if (found->dtype != dtype || Elements(found->shape) != count) {
      throw InputError(where_, ": '", name_, suffix, "' is ", ShapeText(found->shape), " in ", Name(found->dtype),
                       "; wanted ", count, " elements in ", Name(dtype));
    }
    return *found;
  }

  std::vector<float> Floats(const std::string& suffix, int64_t count) const {
    const TensorView view = Part(suffix, DType::kFp32, count);
    std::vector<float> values(static_cast<size_t>(count));
    std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
    RefuseNotFinite(values, name_ + suffix, where_);
    return values;
  }

  std::span<const uint8_t> Bytes(const std::string& suffix, int64_t count) const {
    const TensorView view = Part(suffix, DType::kUint8, count);
    return {reinterpret_cast<const uint8_t*>(view.bytes.data()), view.bytes.size()};
  }

  Json State(const std::string& state) const {
    const auto found = find_(state);
    TRIREME_CHECK(found.has_value()) << state;
    const std::string text(reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size());
    Json parsed = ParseJson(text, Concat(where_, ": '", state, "'"));
    if (parsed.is_object()) return parsed;
    throw InputError(where_, ": '", state, "' is not a JSON object");
  }

 private:
  const std::string& name_;
  const std::string& where_;
  const FindTensor& find_;
};

void RefuseOtherTable(const std::string& where, const std::string& what, std::span<const float> found,
                      std::span<const float> known) {
  for (size_t i = 0; i < known.size(); ++i) {
    if (std::fabs(found[i] - known[i]) <= kSameValue) continue;
    throw InputError(where, ": '", what, "' has the value ", found[i], " for code ", i, "; wanted ", known[i],
                     ": another kind of packing, which is not read");
  }
}

template <typename T>
T Field(const Json& state, const char* key, const std::string& where) {
  try {
    return state.at(key).get<T>();
  } catch (const Json::exception&) {
    throw InputError(where, ": its quant_state has no valid '", key, "'");
  }
}

PackedTensor Described(const Json& state, const std::string& where) {
  PackedTensor tensor;
  const auto kind = Field<std::string>(state, "quant_type", where);
  if (kind != "nf4" && kind != "fp4") throw InputError(where, ": is packed as ", kind, "; wanted nf4 or fp4");
  tensor.storage = {.kind = kind == "nf4" ? PackedStorage::Kind::kNf4 : PackedStorage::Kind::kFp4,
                    .block = Field<int64_t>(state, "blocksize", where),
                    .nested = state.contains("nested_blocksize")};
  tensor.shape = Field<Shape>(state, "shape", where);
  const auto dtype = Field<std::string>(state, "dtype", where);
  tensor.dtype = dtype == "float32" ? DType::kFp32 : dtype == "float16" ? DType::kFp16 : DType::kBf16;
  if (tensor.shape.size() != 2 || !IsPackedBlock(tensor.storage.block)) {
    throw InputError(where, ": is packed as ", ShapeText(tensor.shape), " in blocks of ", tensor.storage.block,
                     "; wanted a matrix in blocks of 32, 64, … or 4096");
  }
  if (tensor.storage.nested && Field<int64_t>(state, "nested_blocksize", where) != kScalesPerBlock) {
    throw InputError(where, ": its scales are packed in blocks of another size; wanted ", kScalesPerBlock);
  }
  return tensor;
}

std::string InPlaceOf(const std::string& name, std::string_view ending, std::string_view other) {
  return name.substr(0, name.size() - ending.size()).append(other);
}

// Part of a matrix in 8 bits.
TensorView Found(const FindTensor& find, const std::string& matrix, const std::string& name, const std::string& file) {
  const auto found = find(name);
  if (found) return *found;
  throw InputError(file, ": '", name, "' is missing: the packed '", matrix, "' cannot be decoded without it");
}

PackedTensor ReadInt8(const std::string& name, const std::string& file, const FindTensor& find) {
  const TensorView codes = Found(find, name, name, file), scales = Found(find, name, Int8ScalesName(name), file);
  if (codes.dtype != DType::kInt8 || codes.shape.size() != 2) {
    throw InputError(file, ": '", name, "' is ", ShapeText(codes.shape), " in ", Name(codes.dtype),
                     "; wanted a matrix in int8, for it has scales '", Int8ScalesName(name), "'");
  }
  if (scales.dtype != DType::kFp32 || scales.shape != Shape{codes.shape[0]}) {
    throw InputError(file, ": '", Int8ScalesName(name), "' is ", ShapeText(scales.shape), " in ", Name(scales.dtype),
                     "; wanted ", codes.shape[0], " elements in fp32, one for each row of '", name, "'");
  }
  const auto order = find(Int8OrderName(name));
  if (order && (order->bytes.empty() || order->bytes[0] != std::byte{0})) {
    throw InputError(file, ": '", Int8OrderName(name),
                     "' is not 0: codes in the order of an older GPU, which is not read; save ",
                     "the model with bitsandbytes 0.45 or later");
  }
  PackedTensor tensor{.storage = kInt8Storage, .shape = codes.shape, .codes = {}};
  tensor.codes = {reinterpret_cast<const uint8_t*>(codes.bytes.data()), codes.bytes.size()};
  tensor.scales.resize(static_cast<size_t>(codes.shape[0]));
  std::memcpy(tensor.scales.data(), scales.bytes.data(), scales.bytes.size());
  RefuseNotFinite(tensor.scales, Int8ScalesName(name), file);
  return tensor;
}

float ValueAt(const PackedTensor& tensor, size_t i) {
  const auto block = static_cast<size_t>(tensor.storage.BlockOf(tensor.shape[1]));
  const size_t b = i / block;
  if (tensor.storage.kind == PackedStorage::Kind::kInt8) {
    return static_cast<float>(static_cast<int8_t>(tensor.codes[i])) * tensor.scales[b] * kInt8Fraction;
  }
  const float scale = tensor.storage.nested
                          ? NestedScale(tensor.map[tensor.nested.codes[b]], tensor.nested.scales[b / kScalesPerBlock],
                                        tensor.nested.offset)
                          : tensor.scales[b];
  const uint8_t byte = tensor.codes[i / 2];
  return ValuesOfCodes(tensor.storage.kind)[i % 2 == 0 ? byte >> 4 : byte & 15] * scale;
}

}  // namespace

std::string Int8ScalesName(const std::string& matrix) { return InPlaceOf(matrix, kWeight, kInt8Scales); }
std::string Int8OrderName(const std::string& matrix) { return InPlaceOf(matrix, kWeight, kInt8Order); }

std::optional<std::string> MatrixOfPart(const std::string& name) {
  for (const std::string_view ending : {kInt8Scales, kInt8Order}) {
    if (name.ends_with(ending)) return InPlaceOf(name, ending, kWeight);
  }
  if (IsPackedState(name)) return name.substr(0, name.find(kState));
  for (const std::string_view part : kParts) {
    if (name.ends_with(part)) return name.substr(0, name.size() - part.size());
  }
  return std::nullopt;
}

std::string MissingState(const std::string& part) {
  const std::string matrix = MatrixOfPart(part).value_or(part);
  return part.ends_with(kInt8Order) ? Int8ScalesName(matrix) : Concat(matrix, kState, "nf4");
}

bool IsPackedState(const std::string& name) {
  return name.find(kState) != std::string::npos || name.ends_with(kInt8Scales);
}

PackedTensor ReadPackedTensor(const std::string& name, const std::string& state_name, const std::string& file,
                              const FindTensor& find) {
  if (state_name.ends_with(kInt8Scales)) return ReadInt8(name, file, find);
  const std::string where = Concat(file, ": '", name, "'");
  const PackedReader reader(name, file, find);
  const Json state = reader.State(state_name);
  PackedTensor tensor = Described(state, where);
  const int64_t elements = Elements(tensor.shape),
                blocks = (elements + tensor.storage.block - 1) / tensor.storage.block;
  tensor.codes = reader.Bytes("", (elements + 1) / 2);
  RefuseOtherTable(file, name + ".quant_map", reader.Floats(".quant_map", 16), ValuesOfCodes(tensor.storage.kind));
  if (!tensor.storage.nested) {
    tensor.scales = reader.Floats(".absmax", blocks);
    return tensor;
  }
  const std::span<const uint8_t> codes = reader.Bytes(".absmax", blocks);
  tensor.nested = {.codes = {codes.begin(), codes.end()},
                   .scales = reader.Floats(".nested_absmax", (blocks + kScalesPerBlock - 1) / kScalesPerBlock),
                   .offset = Field<float>(state, "nested_offset", where)};
  RefuseNotFinite({tensor.nested.offset}, state_name + ": nested_offset", file);
  tensor.map = reader.Floats(".nested_quant_map", 256);
  RefuseOtherTable(file, name + ".nested_quant_map", tensor.map, DynamicMap(/*negative=*/true));
  return tensor;
}

void DecodeTensor(const PackedTensor& tensor, std::vector<std::byte>& bytes) {
  const auto elements = static_cast<size_t>(Elements(tensor.shape));
  std::vector<float> wide(elements);
  for (size_t i = 0; i < elements; ++i) wide[i] = ValueAt(tensor, i);
  bytes.resize(elements * static_cast<size_t>(ByteSize(tensor.dtype)));
  Convert(DType::kFp32, wide.data(), tensor.dtype, bytes.data(), elements);
}

}  // namespace trireme
