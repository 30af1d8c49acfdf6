// PickleValue: what a Python pickle describes, as plain values. An instance of a class is its name and its arguments:
// nothing of it is ever built or called. Values refer to each other and may form cycles, so walk them by path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct PickleValue {
  enum class Kind { kNone, kBool, kInt, kFloat, kText, kBytes, kList, kTuple, kDict, kClass, kObject, kPersistent };

  Kind kind = Kind::kNone;
  int64_t integer = 0;                // also of a bool
  double real = 0;                    // of an int, too
  std::string text;                   // also bytes, and a class's "module.name"
  std::vector<PickleValue*> items{};  // of a dict key, value, key, value, …
  // Of an object, by reference: a copy per object would let a small file fill the memory.
  const PickleValue* made_by = nullptr;    // its class
  const PickleValue* arguments = nullptr;  // a tuple; of a storage its persistent id
  const PickleValue* state = nullptr;      // what it is set to afterwards

  bool is(Kind wanted) const { return kind == wanted; }
  bool IsMadeBy(std::string_view name) const { return made_by != nullptr && made_by->text == name; }
  // Of a dict, by a text or a number; nullptr: none.
  const PickleValue* Get(std::string_view key) const;
  const PickleValue* Get(int64_t key) const;
};

// "a dict", "the number 3", "the class os.system", for messages.
std::string Describe(const PickleValue& value);

}  // namespace trireme
