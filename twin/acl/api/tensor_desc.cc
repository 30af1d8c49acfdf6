// Tensor descriptions: type, format, shape, and other properties that an operator call may set.
#include <cstring>
#include <memory>

#include "acl/acl.h"
#include "twin/acl/op_objects.h"
#include "twin/acl/runtime/error.h"

using twin::Fail;
using twin::FailNull;
using twin::Text;

namespace {

constexpr int64_t kUnknownRankMark = -2;

bool UnknownRank(const aclTensorDesc& desc) { return desc.dims.size() == 1 && desc.dims[0] == kUnknownRankMark; }

aclError CheckDims(const char* function, int count, const int64_t* dims) {
  if (count >= 0 && (count == 0 || dims != nullptr)) return ACL_SUCCESS;
  return Fail(ACL_ERROR_INVALID_PARAM, function, Text(count, " dims at ", dims, "; wanted that many"));
}

aclError CheckIndex(const char* function, const aclTensorDesc& desc, size_t index) {
  if (index < desc.dims.size()) return ACL_SUCCESS;
  return Fail(ACL_ERROR_INVALID_PARAM, function, Text("no dim ", index, " of ", desc.dims.size()));
}

template <class Ranges>
aclError SetRanges(const char* function, aclTensorDesc* desc, size_t count, int64_t from[][2], Ranges* ranges) {
  if (desc == nullptr) return FailNull(function, "desc");
  if (from == nullptr && count > 0) return FailNull(function, "the ranges");
  ranges->clear();
  for (size_t i = 0; i < count; ++i) ranges->push_back({from[i][0], from[i][1]});
  return ACL_SUCCESS;
}

}  // namespace

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims, aclFormat format) {
  if (CheckDims(__func__, numDims, dims) != ACL_SUCCESS) return nullptr;
  auto desc = std::make_unique<aclTensorDesc>();
  desc->type = dataType;
  desc->format = format;
  desc->dims.assign(dims, dims + numDims);
  return desc.release();
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) { std::unique_ptr<const aclTensorDesc> owned(desc); }

aclError aclSetTensorShapeRange(aclTensorDesc* desc, size_t dimsCount, int64_t dimsRange[][2]) {
  return SetRanges(__func__, desc, dimsCount, dimsRange, desc == nullptr ? nullptr : &desc->dim_ranges);
}

aclError aclSetTensorValueRange(aclTensorDesc* desc, size_t valueCount, int64_t valueRange[][2]) {
  return SetRanges(__func__, desc, valueCount, valueRange, desc == nullptr ? nullptr : &desc->value_ranges);
}

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) { return desc == nullptr ? ACL_DT_UNDEFINED : desc->type; }

aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  return desc == nullptr ? ACL_FORMAT_UNDEFINED : desc->format;
}

size_t aclGetTensorDescElementCount(const aclTensorDesc* desc) {
  if (desc == nullptr) return 0;
  size_t count = 1;
  for (const int64_t dim : desc->dims) {
    if (dim < 0) return 0;  // not known yet
    count *= static_cast<size_t>(dim);
  }
  return count;
}

size_t aclGetTensorDescSize(const aclTensorDesc* desc) {
  return desc == nullptr ? 0 : aclGetTensorDescElementCount(desc) * aclDataTypeSize(desc->type);
}

size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  if (desc == nullptr) return 0;
  return UnknownRank(*desc) ? ACL_UNKNOWN_RANK : desc->dims.size();
}

int64_t aclGetTensorDescDim(const aclTensorDesc* desc, size_t index) {
  int64_t dim = -1;
  return aclGetTensorDescDimV2(desc, index, &dim) == ACL_SUCCESS ? dim : -1;
}

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
  if (desc == nullptr) return FailNull(__func__, "desc");
  if (dimSize == nullptr) return FailNull(__func__, "dimSize");
  TWIN_TRY(CheckIndex(__func__, *desc, index));
  *dimSize = desc->dims[index];
  return ACL_SUCCESS;
}

aclError aclGetTensorDescDimRange(const aclTensorDesc* desc, size_t index, size_t dimRangeNum, int64_t* dimRange) {
  if (desc == nullptr) return FailNull(__func__, "desc");
  if (dimRange == nullptr) return FailNull(__func__, "dimRange");
  if (index >= desc->dim_ranges.size() || dimRangeNum < ACL_TENSOR_SHAPE_RANGE_NUM) {
    return Fail(
        ACL_ERROR_INVALID_PARAM, __func__,
        Text("dim ", index, " of ", desc->dim_ranges.size(), " ranges, with room for ", dimRangeNum, " numbers"));
  }
  dimRange[0] = desc->dim_ranges[index][0];
  dimRange[1] = desc->dim_ranges[index][1];
  return ACL_SUCCESS;
}

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  if (desc != nullptr) desc->name = name == nullptr ? "" : name;
}

const char* aclGetTensorDescName(aclTensorDesc* desc) { return desc == nullptr ? "" : desc->name.c_str(); }

aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  if (desc == nullptr) return FailNull(__func__, "desc");
  desc->storage_format = format;
  return ACL_SUCCESS;
}

aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  if (desc == nullptr) return FailNull(__func__, "desc");
  TWIN_TRY(CheckDims(__func__, numDims, dims));
  desc->storage_dims.assign(dims, dims + numDims);
  return ACL_SUCCESS;
}

aclError aclSetTensorStorageFormat(aclTensorDesc* desc, aclFormat format) { return aclSetTensorFormat(desc, format); }

aclError aclSetTensorStorageShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  return aclSetTensorShape(desc, numDims, dims);
}

aclError aclSetTensorOriginFormat(aclTensorDesc* desc, aclFormat format) {
  if (desc == nullptr) return FailNull(__func__, "desc");
  desc->format = format;
  return ACL_SUCCESS;
}

aclError aclSetTensorOriginShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  if (desc == nullptr) return FailNull(__func__, "desc");
  TWIN_TRY(CheckDims(__func__, numDims, dims));
  desc->dims.assign(dims, dims + numDims);
  return ACL_SUCCESS;
}

aclError aclSetTensorDynamicInput(aclTensorDesc* desc, const char* dynamicInputName) {
  if (desc == nullptr) return FailNull(__func__, "desc");
  if (dynamicInputName == nullptr) return FailNull(__func__, "dynamicInputName");
  desc->dynamic_input_name = dynamicInputName;
  return ACL_SUCCESS;
}

aclError aclSetTensorConst(aclTensorDesc* desc, void* dataBuffer, size_t length) {
  if (desc == nullptr) return FailNull(__func__, "desc");
  if (dataBuffer == nullptr || length == 0) return FailNull(__func__, "dataBuffer");
  const auto* bytes = static_cast<const std::byte*>(dataBuffer);
  desc->constant.assign(bytes, bytes + length);
  return ACL_SUCCESS;
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType) {
  if (desc == nullptr) return FailNull(__func__, "desc");
  if (memType < ACL_MEMTYPE_DEVICE || memType > ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, Text("unknown memory type ", static_cast<int>(memType)));
  }
  desc->placement = memType;
  return ACL_SUCCESS;
}
