#include "data/columns/row_json.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/scalar.h>
#include <arrow/util/float16.h>

#include <stdexcept>
#include <string>

namespace trireme {
namespace {

using arrow::Type;

Json ValueJson(const arrow::Array& array, int64_t index);

template <typename Array>
Json NumberAt(const arrow::Array& array, int64_t index) {
  return static_cast<const Array&>(array).Value(index);
}

template <typename Array>
Json TextAt(const arrow::Array& array, int64_t index) {
  return std::string(static_cast<const Array&>(array).GetView(index));
}

// JSON has no bytes: nothing that a record wants is of this kind, and a column that no one asks for does no harm.
template <typename Array>
Json BytesAt(const arrow::Array& array, int64_t index) {
  const std::string_view bytes = static_cast<const Array&>(array).GetView(index);
  return Json::binary({bytes.begin(), bytes.end()});
}

template <typename Array>
Json ListAt(const arrow::Array& array, int64_t index) {
  const auto& lists = static_cast<const Array&>(array);
  Json list = Json::array();
  const int64_t begin = lists.value_offset(index), end = begin + lists.value_length(index);
  for (int64_t i = begin; i < end; ++i) list.push_back(ValueJson(*lists.values(), i));
  return list;
}

Json StructAt(const arrow::Array& array, int64_t index) {
  const auto& structs = static_cast<const arrow::StructArray&>(array);
  Json object = Json::object();
  for (int i = 0; i < structs.num_fields(); ++i) {
    object[structs.struct_type()->field(i)->name()] = ValueJson(*structs.field(i), index);
  }
  return object;
}

// Pairs, since keys need not be texts.
Json MapAt(const arrow::Array& array, int64_t index) {
  const auto& maps = static_cast<const arrow::MapArray&>(array);
  Json pairs = Json::array();
  for (int64_t i = maps.value_offset(index), end = i + maps.value_length(index); i < end; ++i) {
    pairs.push_back(Json::array({ValueJson(*maps.keys(), i), ValueJson(*maps.items(), i)}));
  }
  return pairs;
}

// Times, dates, decimals: as text.
Json PrintedAt(const arrow::Array& array, int64_t index) {
  const arrow::Result<std::shared_ptr<arrow::Scalar>> scalar = array.GetScalar(index);
  if (!scalar.ok()) throw std::runtime_error(scalar.status().message());
  return (*scalar)->ToString();
}

Json IntegerAt(const arrow::Array& array, int64_t index) {
  switch (array.type_id()) {
    case Type::INT8:
      return NumberAt<arrow::Int8Array>(array, index);
    case Type::INT16:
      return NumberAt<arrow::Int16Array>(array, index);
    case Type::INT32:
      return NumberAt<arrow::Int32Array>(array, index);
    case Type::INT64:
      return NumberAt<arrow::Int64Array>(array, index);
    case Type::UINT8:
      return NumberAt<arrow::UInt8Array>(array, index);
    case Type::UINT16:
      return NumberAt<arrow::UInt16Array>(array, index);
    case Type::UINT32:
      return NumberAt<arrow::UInt32Array>(array, index);
    default:
      return NumberAt<arrow::UInt64Array>(array, index);
  }
}

Json NestedAt(const arrow::Array& array, int64_t index) {
  switch (array.type_id()) {
    case Type::LIST:
      return ListAt<arrow::ListArray>(array, index);
    case Type::LARGE_LIST:
      return ListAt<arrow::LargeListArray>(array, index);
    case Type::FIXED_SIZE_LIST:
      return ListAt<arrow::FixedSizeListArray>(array, index);
    case Type::LIST_VIEW:
      return ListAt<arrow::ListViewArray>(array, index);
    case Type::LARGE_LIST_VIEW:
      return ListAt<arrow::LargeListViewArray>(array, index);
    case Type::STRUCT:
      return StructAt(array, index);
    case Type::MAP:
      return MapAt(array, index);
    case Type::DICTIONARY: {
      const auto& indexed = static_cast<const arrow::DictionaryArray&>(array);
      return ValueJson(*indexed.dictionary(), indexed.GetValueIndex(index));
    }
    case Type::EXTENSION:
      return ValueJson(*static_cast<const arrow::ExtensionArray&>(array).storage(), index);
    default:
      throw std::runtime_error("columns of type " + array.type()->ToString() + " are unsupported");
  }
}

Json ValueJson(const arrow::Array& array, int64_t index) {
  if (array.IsNull(index)) return nullptr;
  switch (array.type_id()) {
    case Type::NA:
      return nullptr;
    case Type::STRING:
      return TextAt<arrow::StringArray>(array, index);
    case Type::LARGE_STRING:
      return TextAt<arrow::LargeStringArray>(array, index);
    case Type::STRING_VIEW:
      return TextAt<arrow::StringViewArray>(array, index);
    case Type::BOOL:
      return NumberAt<arrow::BooleanArray>(array, index);
    case Type::INT8:
    case Type::INT16:
    case Type::INT32:
    case Type::INT64:
    case Type::UINT8:
    case Type::UINT16:
    case Type::UINT32:
    case Type::UINT64:
      return IntegerAt(array, index);
    case Type::HALF_FLOAT:
      return arrow::util::Float16::FromBits(static_cast<const arrow::HalfFloatArray&>(array).Value(index)).ToDouble();
    case Type::FLOAT:
      return static_cast<double>(static_cast<const arrow::FloatArray&>(array).Value(index));
    case Type::DOUBLE:
      return NumberAt<arrow::DoubleArray>(array, index);
    case Type::BINARY:
      return BytesAt<arrow::BinaryArray>(array, index);
    case Type::LARGE_BINARY:
      return BytesAt<arrow::LargeBinaryArray>(array, index);
    case Type::BINARY_VIEW:
      return BytesAt<arrow::BinaryViewArray>(array, index);
    case Type::FIXED_SIZE_BINARY:
      return BytesAt<arrow::FixedSizeBinaryArray>(array, index);
    case Type::DATE32:
    case Type::DATE64:
    case Type::TIME32:
    case Type::TIME64:
    case Type::TIMESTAMP:
    case Type::DURATION:
    case Type::DECIMAL32:
    case Type::DECIMAL64:
    case Type::DECIMAL128:
    case Type::DECIMAL256:
      return PrintedAt(array, index);
    default:
      return NestedAt(array, index);
  }
}

}  // namespace

Json RowJson(const arrow::RecordBatch& batch, int64_t row) {
  Json object = Json::object();
  for (int i = 0; i < batch.num_columns(); ++i) object[batch.column_name(i)] = ValueJson(*batch.column(i), row);
  return object;
}

}  // namespace trireme
