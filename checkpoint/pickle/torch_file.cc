#include "checkpoint/pickle/torch_file.h"

#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;

struct NamedType {
  std::string_view type, storage;
  DType dtype;
};

constexpr NamedType kTypes[] = {{"torch.float64", "torch.DoubleStorage", DType::kFp64},
                                {"torch.float32", "torch.FloatStorage", DType::kFp32},
                                {"torch.float16", "torch.HalfStorage", DType::kFp16},
                                {"torch.bfloat16", "torch.BFloat16Storage", DType::kBf16},
                                {"torch.int64", "torch.LongStorage", DType::kInt64},
                                {"torch.int32", "torch.IntStorage", DType::kInt32},
                                {"torch.int16", "torch.ShortStorage", DType::kInt16},
                                {"torch.int8", "torch.CharStorage", DType::kInt8},
                                {"torch.uint8", "torch.ByteStorage", DType::kUint8},
                                {"torch.bool", "torch.BoolStorage", DType::kBool},
                                {"torch.float8_e4m3fn", "", DType::kFp8E4M3}};

const NamedType& NamesOf(DType dtype) {
  for (const NamedType& type : kTypes) {
    if (type.dtype == dtype) return type;
  }
  throw InputError("elements of ", Name(dtype), " have no name in files of torch.save");
}

ZipDirectory OpenZip(std::span<const std::byte> bytes, const std::string& where) {
  if (LooksLikeZip(bytes)) return ZipDirectory(bytes, where);
  throw InputError(where, ": is no file of torch.save, or one older than torch 1.6; save it again with a newer torch");
}

// The index of the last element, counted from the first; nothing if it overflows or a number is negative.
std::optional<int64_t> LastElement(const Shape& shape, const Shape& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t step = 0;
    if (shape[d] < 0 || strides[d] < 0) return std::nullopt;
    if (__builtin_mul_overflow(shape[d] - 1, strides[d], &step) || __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  }
  return last;
}

// Nothing if there are more than `most`: a view that repeats its storage would fill any memory.
std::optional<int64_t> CountElements(const Shape& shape, int64_t most) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  }
  return count <= most ? std::optional(count) : std::nullopt;
}

}  // namespace

std::optional<DType> TorchDType(const std::string& name) {
  for (const NamedType& type : kTypes) {
    if (name == type.type || (!type.storage.empty() && name == type.storage)) return type.dtype;
  }
  return std::nullopt;
}

std::string_view TorchName(DType dtype) { return NamesOf(dtype).type; }

std::string_view TorchStorage(DType dtype) { return NamesOf(dtype).storage; }

std::optional<Shape> IntegersOf(const PickleValue& value) {
  if (!value.is(Kind::kTuple) && !value.is(Kind::kList)) return std::nullopt;
  Shape numbers;
  for (const PickleValue* item : value.items) {
    if (!item->is(Kind::kInt)) return std::nullopt;
    numbers.push_back(item->integer);
  }
  return numbers;
}

TorchFile::TorchFile(std::span<const std::byte> bytes, std::string where)
    : where_(std::move(where)), zip_(OpenZip(bytes, where_)), pickle_(zip_.Find("data.pkl"), where_) {
  if (!zip_.Has("byteorder")) return;
  const auto order = zip_.Find("byteorder");
  const std::string_view text(reinterpret_cast<const char*>(order.data()), order.size());
  if (text != "little")
    throw InputError(where_, ": its byte order is '", Printable(std::string(text)), "'; wanted little");
}

std::optional<StridedTensor> TorchFile::TensorOf(const PickleValue& value) const {
  const PickleValue* made = &value;
  // A parameter holds a tensor; each level is another object, and two are all that torch writes.
  for (int level = 0; level < 3 && made->is(Kind::kObject); ++level) {
    const std::vector<PickleValue*>& arguments = made->arguments->items;
    if (made->IsMadeBy("torch._utils._rebuild_tensor_v2") ||
        made->IsMadeBy("torch_npu.utils.storage._rebuild_npu_tensor"))
      return Rebuild(*made->arguments, false);
    if (made->IsMadeBy("torch._utils._rebuild_tensor_v3")) return Rebuild(*made->arguments, true);
    if (made->IsMadeBy("torch._tensor._rebuild_from_type_v2") && arguments.size() == 4 &&
        arguments[2]->is(Kind::kTuple)) {
      return Rebuild(*arguments[2], arguments[0]->text == "torch._utils._rebuild_tensor_v3");
    }
    if (!made->IsMadeBy("torch._utils._rebuild_parameter") || arguments.empty()) return std::nullopt;
    made = arguments[0];
  }
  return std::nullopt;
}

// (storage, offset, size, stride, …), and as the seventh of a v3 the dtype. The storage is ('storage', class, key,
// device, elements).
StridedTensor TorchFile::Rebuild(const PickleValue& tuple, bool typed_by_argument) const {
  const auto refuse = [&](const std::string& why) {
    throw InputError(where_, ": a tensor is not one of torch.save: ", why);
  };
  const std::vector<PickleValue*>& arguments = tuple.items;
  if (arguments.size() < 5 || !arguments[0]->is(Kind::kPersistent)) refuse("it has no storage");
  const std::vector<PickleValue*>& id = arguments[0]->arguments->items;
  if (id.size() < 5 || id[0]->text != "storage" || !id[2]->is(Kind::kText)) refuse("its storage has no name");
  if (typed_by_argument && arguments.size() < 7) refuse("it has no dtype");
  const std::string& type = typed_by_argument ? arguments[6]->text : id[1]->text;
  const std::optional<DType> dtype = TorchDType(type);
  if (!dtype) refuse("its type is " + Printable(type));
  const std::optional<Shape> shape = IntegersOf(*arguments[2]), strides = IntegersOf(*arguments[3]);
  if (!shape || !strides || shape->size() != strides->size() || !arguments[1]->is(Kind::kInt))
    refuse("it has no shape");
  const std::span<const std::byte> storage = zip_.Find("data/" + id[2]->text);
  const std::optional<int64_t> last = LastElement(*shape, *strides);
  const int64_t offset = arguments[1]->integer, elements = static_cast<int64_t>(storage.size()) / ByteSize(*dtype);
  const std::optional<int64_t> count = CountElements(*shape, elements);
  if (!last || !count || offset < 0 || offset > elements || (*count > 0 && *last >= elements - offset)) {
    refuse(Concat("its elements ", ShapeText(*shape), " from ", offset, " lie outside its storage of ", elements));
  }
  return {*dtype, *shape, *strides, storage.data() + offset * ByteSize(*dtype)};
}

}  // namespace trireme
