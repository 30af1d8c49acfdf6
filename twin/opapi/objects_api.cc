// aclCreate… and aclDestroy… of the aclnn interface, and tensor queries. As the interface specifies, creation
// returns nullptr on failure, with the reason in aclGetRecentErrMsg.
#include <ATen/ops/from_blob.h>

#include <exception>
#include <memory>
#include <string>

#include "twin/acl/internal.h"
#include "twin/opapi/objects.h"
#include "twin/opapi/operator.h"
#include "twin/opapi/tensor_bytes.h"

namespace twin {

at::ScalarType AtenType(aclDataType type) {
  switch (type) {
    case ACL_FLOAT:
      return at::kFloat;
    case ACL_FLOAT16:
      return at::kHalf;
    case ACL_BF16:
      return at::kBFloat16;
    case ACL_DOUBLE:
      return at::kDouble;
    case ACL_INT8:
      return at::kChar;
    case ACL_INT16:
      return at::kShort;
    case ACL_INT32:
      return at::kInt;
    case ACL_INT64:
      return at::kLong;
    case ACL_UINT8:
      return at::kByte;
    case ACL_UINT16:
      return at::kUInt16;
    case ACL_UINT32:
      return at::kUInt32;
    case ACL_UINT64:
      return at::kUInt64;
    case ACL_BOOL:
      return at::kBool;
    case ACL_COMPLEX64:
      return at::kComplexFloat;
    case ACL_COMPLEX128:
      return at::kComplexDouble;
    default:
      throw std::invalid_argument("the CANN twin does not support aclDataType " + std::to_string(type));
  }
}

namespace {

at::Scalar ReadScalar(const void* value, aclDataType type) {
  // One element as a tensor of its type: ATen can read every type.
  return at::from_blob(const_cast<void*>(value), {}, at::TensorOptions().dtype(AtenType(type))).item();
}

template <class Make>
auto Guarded(const char* function, Make make) -> decltype(make().release()) {
  try {
    return make().release();
  } catch (const std::exception& exception) {
    SetRecentError(std::string(function) + ": " + exception.what());
    return nullptr;
  }
}

template <class Array, class Value>
Array* MakeArray(const char* function, const Value* values, uint64_t size) {
  return Guarded(function, [&] {
    auto array = std::make_unique<Array>();
    if (size > 0) array->values.assign(values, values + size);
    return array;
  });
}

template <class List, class Item>
List* MakeList(const char* function, const Item* const* items, uint64_t size) {
  return Guarded(function, [&] {
    auto list = std::make_unique<List>();
    if (size > 0) list->items.assign(items, items + size);
    return list;
  });
}

template <class Object>
int Destroy(const Object* object) {
  delete object;
  return ACL_SUCCESS;
}

template <class List>
int DestroyList(const List* list) {
  if (list == nullptr) return ACL_SUCCESS;
  for (const auto* item : list->items) delete item;
  delete list;
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace twin

using twin::Destroy;
using twin::DestroyList;
using twin::MakeArray;
using twin::MakeList;

TWIN_API aclTensor* aclCreateTensor(const int64_t* view_dims, uint64_t view_dims_num, aclDataType data_type,
                                    const int64_t* stride, int64_t offset, aclFormat format,
                                    const int64_t* storage_dims, uint64_t storage_dims_num, void* tensor_data) {
  return twin::Guarded(__func__, [&] {
    const at::ScalarType type = twin::AtenType(data_type);
    char* first = static_cast<char*>(tensor_data) + offset * static_cast<int64_t>(c10::elementSize(type));
    auto tensor = std::make_unique<aclTensor>();
    tensor->format = format;
    tensor->view = at::from_blob(first, at::IntArrayRef(view_dims, view_dims_num),
                                 at::IntArrayRef(stride, view_dims_num), at::TensorOptions().dtype(type));
    if (type != at::kBool) twin::NoteTensorBytes(tensor->view.nbytes());  // booleans are masks
    return tensor;
  });
}

TWIN_API aclScalar* aclCreateScalar(void* value, aclDataType data_type) {
  return twin::Guarded(
      __func__, [&] { return std::make_unique<aclScalar>(aclScalar{.value = twin::ReadScalar(value, data_type)}); });
}

TWIN_API aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return MakeArray<aclIntArray>(__func__, value, size);
}
TWIN_API aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return MakeArray<aclFloatArray>(__func__, value, size);
}
TWIN_API aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return MakeArray<aclBoolArray>(__func__, value, size);
}
TWIN_API aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  return MakeList<aclTensorList>(__func__, value, size);
}
TWIN_API aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  return MakeList<aclScalarList>(__func__, value, size);
}

TWIN_API int aclDestroyTensor(const aclTensor* tensor) { return Destroy(tensor); }
TWIN_API int aclDestroyScalar(const aclScalar* scalar) { return Destroy(scalar); }
TWIN_API int aclDestroyIntArray(const aclIntArray* array) { return Destroy(array); }
TWIN_API int aclDestroyFloatArray(const aclFloatArray* array) { return Destroy(array); }
TWIN_API int aclDestroyBoolArray(const aclBoolArray* array) { return Destroy(array); }
TWIN_API int aclDestroyTensorList(const aclTensorList* list) { return DestroyList(list); }
TWIN_API int aclDestroyScalarList(const aclScalarList* list) { return DestroyList(list); }

// The caller frees the result with delete[]. Operators whose output size is known only after they ran report
// it here.
TWIN_API int aclGetViewShape(const aclTensor* tensor, int64_t** view_dims, uint64_t* view_dims_num) {
  if (tensor == nullptr || view_dims == nullptr || view_dims_num == nullptr) {
    twin::SetRecentError("aclGetViewShape: an argument is null");
    return twin::kNullArgument;
  }
  const at::IntArrayRef sizes = tensor->view.sizes();
  *view_dims = new int64_t[sizes.size()];
  std::copy(sizes.begin(), sizes.end(), *view_dims);
  *view_dims_num = sizes.size();
  return ACL_SUCCESS;
}
