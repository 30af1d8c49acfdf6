#include "checkpoint/megatron/dist_metadata.h"

#include <optional>
#include <utility>

#include "checkpoint/pickle/torch_file.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/io/mapped_file.h"

namespace trireme {
namespace {

using Kind = PickleValue::Kind;

// Reads one .metadata; every accessor refuses what is not there.
class Parser {
 public:
  explicit Parser(const std::filesystem::path& file) : where_(file.string()) {}

  DistMetadata Parse(const PickleValue& root) {
    FindItems(Field(root, "storage_data"));
    const PickleValue& entries = Field(root, "state_dict_metadata");
    if (!entries.is(Kind::kDict)) Refuse("state_dict_metadata is " + Describe(entries));
    for (size_t i = 0; i + 1 < entries.items.size(); i += 2) AddEntry(entries.items[i]->text, *entries.items[i + 1]);
    return std::move(result_);
  }

 private:
  [[noreturn]] void Refuse(const std::string& why) const {
    throw InputError(where_, ": is no metadata of torch.distributed.checkpoint: ", why);
  }
  const PickleValue& Field(const PickleValue& object, const char* name) const {
    const PickleValue* value = object.state == nullptr ? nullptr : object.state->Get(name);
    if (value == nullptr) Refuse(Concat(Describe(object), " has no '", name, "'"));
    return *value;
  }
  Shape Numbers(const PickleValue& value) const {
    const std::optional<Shape> numbers = IntegersOf(value);
    if (!numbers) Refuse("a shape is " + Describe(value));
    for (const int64_t number : *numbers) {
      if (number < 0) Refuse("a shape is negative: " + ShapeText(*numbers));
    }
    return *numbers;
  }
  uint64_t Natural(const PickleValue& value) const {
    if (!value.is(Kind::kInt) || value.integer < 0) Refuse("an offset is " + Describe(value));
    return static_cast<uint64_t>(value.integer);
  }

  void FindItems(const PickleValue& storage) {
    if (!storage.is(Kind::kDict)) Refuse("storage_data is " + Describe(storage));
    for (size_t i = 0; i + 1 < storage.items.size(); i += 2) {
      const PickleValue &index = *storage.items[i], &info = *storage.items[i + 1];
      const PickleValue* offset = index.state == nullptr ? nullptr : index.state->Get("offset");  // only of a chunk
      const DistItem item{Field(info, "relative_path").text, Natural(Field(info, "offset")),
                          Natural(Field(info, "length"))};
      if (item.file.empty() || item.file.find('/') != std::string::npos)
        Refuse("an item lies in the file '" + Printable(item.file) + "'");
      items_[{Field(index, "fqn").text, offset == nullptr || offset->is(Kind::kNone) ? Shape() : Numbers(*offset)}] =
          item;
    }
  }

  const DistItem& ItemOf(const std::string& name, const Shape& offset) const {
    const auto found = items_.find({name, offset});
    if (found == items_.end())
      Refuse("the chunk of '" + Printable(name) + "' at " + ShapeText(offset) + " lies in no file");
    return found->second;
  }

  void AddEntry(const std::string& name, const PickleValue& entry) {
    if (entry.IsMadeBy("torch.distributed.checkpoint.metadata.BytesStorageMetadata")) {
      result_.objects[name] = ItemOf(name, {});
      return;
    }
    DistTensor tensor{TypeOf(name, Field(entry, "properties")), Numbers(Field(entry, "size")), {}};
    int64_t most = 1;
    for (const int64_t extent : tensor.shape) {
      if (__builtin_mul_overflow(most, extent, &most) || most > int64_t{1} << 50)
        Refuse("'" + Printable(name) + "' has the shape " + ShapeText(tensor.shape));
    }
    for (const PickleValue* chunk : Field(entry, "chunks").items) {
      const Box box{Numbers(Field(*chunk, "offsets")), Numbers(Field(*chunk, "sizes"))};
      if (!IsInside(box, tensor.shape))
        Refuse("'" + Printable(name) + "' of " + ShapeText(tensor.shape) + " has the chunk " + ToText(box));
      tensor.chunks.push_back({box, ItemOf(name, box.offset)});
    }
    result_.tensors[name] = std::move(tensor);
  }

  // TensorProperties are a tuple with the dtype first, or fields.
  DType TypeOf(const std::string& name, const PickleValue& properties) const {
    const PickleValue* state = properties.state;
    const PickleValue* type = state == nullptr                                   ? nullptr
                              : state->is(Kind::kTuple) && !state->items.empty() ? state->items[0]
                                                                                 : state->Get("dtype");
    const std::optional<DType> dtype = type == nullptr ? std::nullopt : TorchDType(type->text);
    if (!dtype) Refuse("'" + Printable(name) + "' has the type " + (type == nullptr ? "none" : Describe(*type)));
    return *dtype;
  }

  static bool IsInside(const Box& box, const Shape& shape) {
    if (box.offset.size() != shape.size() || box.extent.size() != shape.size()) return false;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (box.extent[d] > shape[d] || box.offset[d] > shape[d] - box.extent[d]) return false;
    }
    return true;
  }

  std::string where_;
  std::map<std::pair<std::string, Shape>, DistItem> items_;
  DistMetadata result_;
};

}  // namespace

DistMetadata ReadDistMetadata(const std::filesystem::path& file) {
  if (!PathExists(file))
    throw InputError(file.string(), ": is missing; it is written last, so the checkpoint is only half saved");
  const MappedFile bytes(file);
  const Pickle pickle(bytes.bytes(), file.string());
  return Parser(file).Parse(pickle.root());
}

}  // namespace trireme
