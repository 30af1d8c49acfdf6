#include "checkpoint/pickle/reader.h"

#include <bit>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <utility>

#include "checkpoint/pickle/known_classes.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

constexpr size_t kMostValues = size_t{1} << 24;
constexpr size_t kMostBytes = size_t{1} << 29;

using Kind = PickleValue::Kind;

bool IsEmptyDict(const std::string& name) {
  return name == "collections.OrderedDict" || name == "collections.defaultdict";
}

}  // namespace

// Plays the opcodes: a stack of values, marks on it, and a memo of those that are used again.
class PickleMachine {
 public:
  PickleMachine(Pickle& pickle, std::span<const std::byte> bytes, const std::string& where)
      : values_(pickle.values_), bytes_(bytes), where_(where) {}

  PickleValue* Run() {
    while (true) {
      const auto opcode = static_cast<unsigned char>(Byte());
      if (opcode == '.') return Pop();
      Step(opcode);
    }
  }

 private:
  [[noreturn]] void Refuse(const std::string& what) const {
    throw InputError(where_, ": is no pickle of a checkpoint: ", what, " at byte ", at_);
  }

  std::span<const std::byte> Take(uint64_t count) {
    if (count > bytes_.size() - at_) Refuse("it ends early");
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  std::byte Byte() { return Take(1).front(); }
  uint64_t Number(size_t width) {  // little-endian, without sign
    uint64_t number = 0;
    const auto bytes = Take(width);
    for (size_t i = width; i-- > 0;) number = number << 8 | static_cast<uint64_t>(bytes[i]);
    return number;
  }
  std::string Text(uint64_t count) {
    const auto bytes = Take(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string Line() {
    const auto rest = bytes_.subspan(at_);
    const void* end = std::memchr(rest.data(), '\n', rest.size());
    if (end == nullptr) Refuse("a line does not end");
    std::string line = Text(static_cast<uint64_t>(static_cast<const std::byte*>(end) - rest.data()));
    ++at_;
    return line;
  }

  PickleValue* New(Kind kind) {
    if (values_.size() >= kMostValues) Refuse(Concat("it has more than ", kMostValues, " values"));
    values_.push_back({.kind = kind, .text = {}});
    return &values_.back();
  }
  void Push(PickleValue* value) { stack_.push_back(value); }
  PickleValue* Pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) Refuse("a value is missing");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* Top() {
    PickleValue* value = Pop();
    Push(value);
    return value;
  }
  std::vector<PickleValue*> PopToMark() {
    if (marks_.empty()) Refuse("a mark is missing");
    const size_t mark = marks_.back();
    marks_.pop_back();
    std::vector<PickleValue*> items(stack_.begin() + static_cast<ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark);
    return items;
  }

  void PushText(Kind kind, std::string text) {
    PickleValue* value = New(kind);
    value->text = std::move(text);
    Push(value);
  }
  void PushInt(int64_t number) {
    PickleValue* value = New(Kind::kInt);
    value->integer = number;
    value->real = static_cast<double>(number);
    Push(value);
  }
  void PushBool(bool is) {
    PickleValue* value = New(Kind::kBool);
    value->integer = is ? 1 : 0;
    Push(value);
  }
  void PushFloat() {  // eight bytes, the highest first
    const auto bytes = Take(8);
    uint64_t bits = 0;
    for (const std::byte byte : bytes) bits = bits << 8 | static_cast<uint64_t>(byte);
    PickleValue* value = New(Kind::kFloat);
    value->real = std::bit_cast<double>(bits);
    Push(value);
  }
  // Two's complement of any length; what does not fit 64 bits (seeds, states of generators) keeps its nearest real.
  void PushLong(uint64_t width) {
    const auto bytes = Take(width);
    if (width <= 8) {
      uint64_t number = width > 0 && (bytes[width - 1] & std::byte{0x80}) != std::byte{0} ? ~uint64_t{0} : 0;
      for (size_t i = width; i-- > 0;) number = number << 8 | static_cast<uint64_t>(bytes[i]);
      return PushInt(static_cast<int64_t>(number));
    }
    PickleValue* value = New(Kind::kFloat);
    for (size_t i = width; i-- > 0;) value->real = value->real * 256 + static_cast<double>(bytes[i]);
    Push(value);
  }
  void PushItems(Kind kind, std::vector<PickleValue*> items) {
    PickleValue* value = New(kind);
    value->items = std::move(items);
    Push(value);
  }
  void PushTuple(size_t count) {
    std::vector<PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = Pop();
    PushItems(Kind::kTuple, std::move(items));
  }
  void PushClass(const std::string& module, const std::string& name) {
    if (!IsKnownClass(module, name)) {
      throw InputError(
          where_, ": names the class ", Printable(module + "." + name),
          ", which no checkpoint needs; nothing of it was executed. If the file can be trusted, load it in "
          "Python and save it again with tensors and plain values alone");
    }
    PushText(Kind::kClass, (module == "__builtin__" ? "builtins" : module) + "." + name);
  }

  void Append(std::vector<PickleValue*> items) {
    PickleValue* list = Top();
    if (!list->is(Kind::kList)) Refuse("something is appended to " + Describe(*list));
    list->items.insert(list->items.end(), items.begin(), items.end());
  }
  void Set(std::vector<PickleValue*> items) {
    PickleValue* dict = Top();
    if (!dict->is(Kind::kDict) || items.size() % 2 != 0) Refuse("keys are set in " + Describe(*dict));
    dict->items.insert(dict->items.end(), items.begin(), items.end());
  }

  // A call that Python would make: kept as the class and its arguments.
  void Reduce() {
    const PickleValue* arguments = Pop();
    const PickleValue* callee = Pop();
    if (!callee->is(Kind::kClass) || !arguments->is(Kind::kTuple)) Refuse("a call of " + Describe(*callee));
    if (IsEmptyDict(callee->text)) return PushItems(Kind::kDict, {});
    if (callee->text == "torch.Size" && arguments->items.size() == 1) return Push(arguments->items[0]);
    PickleValue* object = New(Kind::kObject);
    object->made_by = callee;
    object->arguments = arguments;
    Push(object);
  }
  void Build() {
    const PickleValue* state = Pop();
    Top()->state = state;
  }
  void PersistentId() {
    const PickleValue* id = Pop();
    PickleValue* storage = New(Kind::kPersistent);
    storage->arguments = id;
    Push(storage);
  }

  void Remember(uint64_t key) { memo_[key] = Top(); }
  void Recall(uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) Refuse("it uses a value that it has not kept");
    Push(found->second);
  }

  void Step(unsigned char opcode) {
    switch (opcode) {
      case 0x80:
        if (Number(1) > 5) Refuse("its protocol is newer than 5");
        return;
      case 0x95:
        Take(8);
        return;  // a frame's length
      case '(':
        marks_.push_back(stack_.size());
        return;
      case '0':
        Pop();
        return;
      case '1':
        PopToMark();
        return;
      case '2':
        Push(Top());
        return;
      case 'N':
        return Push(New(Kind::kNone));
      case 0x88:
        return PushBool(true);
      case 0x89:
        return PushBool(false);
      case 'J':
        return PushInt(static_cast<int32_t>(Number(4)));
      case 'K':
        return PushInt(static_cast<int64_t>(Number(1)));
      case 'M':
        return PushInt(static_cast<int64_t>(Number(2)));
      case 0x8a:
        return PushLong(Number(1));
      case 0x8b:
        return PushLong(Number(4));
      case 'G':
        return PushFloat();
      case 'X':
        return PushText(Kind::kText, Text(Number(4)));
      case 0x8c:
        return PushText(Kind::kText, Text(Number(1)));
      case 0x8d:
        return PushText(Kind::kText, Text(Number(8)));
      case 'T':
        return PushText(Kind::kBytes, Text(Number(4)));
      case 'U':
        return PushText(Kind::kBytes, Text(Number(1)));
      case 'B':
        return PushText(Kind::kBytes, Text(Number(4)));
      case 'C':
        return PushText(Kind::kBytes, Text(Number(1)));
      case 0x8e:
        return PushText(Kind::kBytes, Text(Number(8)));
      default:
        return Compose(opcode);
    }
  }
  void Compose(unsigned char opcode) {
    switch (opcode) {
      case '}':
        return PushItems(Kind::kDict, {});
      case ']':
      case 0x8f:
        return PushItems(Kind::kList, {});  // a set as a list
      case ')':
        return PushItems(Kind::kTuple, {});
      case 't':
        return PushItems(Kind::kTuple, PopToMark());
      case 'l':
      case 0x91:
        return PushItems(Kind::kList, PopToMark());
      case 'd':
        return PushItems(Kind::kDict, PopToMark());
      case 0x85:
        return PushTuple(1);
      case 0x86:
        return PushTuple(2);
      case 0x87:
        return PushTuple(3);
      case 'a': {
        PickleValue* item = Pop();
        return Append({item});
      }
      case 'e':
      case 0x90: {
        auto items = PopToMark();
        return Append(std::move(items));
      }
      case 's': {
        PickleValue* value = Pop();
        PickleValue* key = Pop();
        return Set({key, value});
      }
      case 'u': {
        auto items = PopToMark();
        return Set(std::move(items));
      }
      case 'q':
        return Remember(Number(1));
      case 'r':
        return Remember(Number(4));
      case 0x94:
        return Remember(memo_.size());
      case 'h':
        return Recall(Number(1));
      case 'j':
        return Recall(Number(4));
      case 'c': {
        const std::string module = Line();
        return PushClass(module, Line());
      }
      case 0x93: {
        const PickleValue* name = Pop();
        const PickleValue* module = Pop();
        return PushClass(module->text, name->text);
      }
      case 'R':
      case 0x81:
        return Reduce();
      case 'b':
        return Build();
      case 'Q':
        return PersistentId();
      default:
        Refuse(Concat("opcode ", static_cast<int>(opcode), " is not one of a checkpoint's"));
    }
  }

  std::deque<PickleValue>& values_;
  std::span<const std::byte> bytes_;
  const std::string& where_;
  size_t at_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.size() > kMostBytes)
    throw InputError(where, ": its pickle has ", bytes.size(), " bytes; wanted at most ", kMostBytes);
  root_ = PickleMachine(*this, bytes, where).Run();
}

const PickleValue* PickleValue::Get(std::string_view key) const {
  // From the end: a key that is set twice has its last value.
  for (size_t i = kind == Kind::kDict ? items.size() : 0; i >= 2; i -= 2) {
    if (items[i - 2]->is(Kind::kText) && items[i - 2]->text == key) return items[i - 1];
  }
  return nullptr;
}

const PickleValue* PickleValue::Get(int64_t key) const {
  for (size_t i = kind == Kind::kDict ? items.size() : 0; i >= 2; i -= 2) {
    if (items[i - 2]->is(Kind::kInt) && items[i - 2]->integer == key) return items[i - 1];
  }
  return nullptr;
}

std::string Describe(const PickleValue& value) {
  switch (value.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.integer != 0 ? "True" : "False";
    case Kind::kInt:
      return Concat("the number ", value.integer);
    case Kind::kFloat:
      return Concat("the number ", value.real);
    case Kind::kText:
      return "the text '" + Printable(value.text.substr(0, 60)) + "'";
    case Kind::kBytes:
      return Concat(value.text.size(), " bytes");
    case Kind::kList:
      return "a list";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kDict:
      return "a dict";
    case Kind::kClass:
      return "the class " + Printable(value.text);
    case Kind::kObject:
      return "an object of " + Printable(value.made_by->text);
    case Kind::kPersistent:
      return "a storage";
  }
  return "";
}

}  // namespace trireme
