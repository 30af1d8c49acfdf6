// JsonGrammar: whether bytes, one after another, can still become one JSON object. It knows the grammar of RFC 8259 and
// nothing of tokens; what an object must contain is up to the caller.
// Stricter than a parser where a model could go on forever or a client could choke: no endless blanks, no lone
// surrogates, no deeper than kMostDepth.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

class JsonGrammar {
 public:
  static constexpr int kMostDepth = 64;
  static constexpr int kMostBlanks = 64;  // in a row, between tokens of the grammar

  // Takes the next byte. False: no object continues so; the state is then of no use.
  bool Take(uint8_t byte);
  // The object is whole; nothing may follow.
  bool complete() const { return at_ == At::kEnd; }
  // In the middle of a character of several bytes.
  bool in_character() const { return at_ == At::kUtf8; }
  // What may follow depends on this alone.
  std::string key() const;

 private:
  enum class At : uint8_t {
    kStart,
    kValue,
    kFirstKey,
    kKey,
    kColon,
    kFirstElement,
    kAfterValue,  // between tokens: blanks may come
    kString,
    kEscape,
    kHex,
    kHexAfterD,
    kUtf8,  // in a string
    kLiteral,
    kMinus,
    kZero,
    kDigits,
    kPoint,
    kFraction,
    kE,
    kSign,
    kExponent,  // in another value
    kEnd
  };

  bool TakeBetween(uint8_t byte);
  bool TakeInString(uint8_t byte);
  bool TakeInNumber(uint8_t byte);
  bool TakeAfterValue(uint8_t byte);
  bool BeginValue(uint8_t byte);
  bool BeginContainer(uint8_t byte);
  bool BeginString(bool is_key);
  bool BeginCharacter(uint8_t byte);
  bool Close(uint8_t byte);
  bool in_object() const { return (objects_ & 1) != 0; }
  bool Go(At at) {
    at_ = at;
    return true;
  }

  // Open containers, the innermost in the lowest bit: 1 is an object, 0 an array. Small: masks copy a state per byte.
  uint64_t objects_ = 0;
  uint8_t depth_ = 0;
  At at_ = At::kStart;
  bool is_key_ = false;         // the string is
  uint8_t left_ = 0;            // bytes of a character, hexadecimal digits, or blanks so far
  uint8_t low_ = 0, high_ = 0;  // of a character's next byte
  const char* rest_ = "";       // of a literal
};

}  // namespace trireme
