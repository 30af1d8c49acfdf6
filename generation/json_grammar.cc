#include "generation/json_grammar.h"

#include <cstring>

namespace trireme {
namespace {

bool IsBlank(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }
bool IsDigit(uint8_t byte) { return byte >= '0' && byte <= '9'; }
bool IsHex(uint8_t byte) {
  const int lower = byte | 0x20;
  return IsDigit(byte) || (lower >= 'a' && lower <= 'f');
}

}  // namespace

std::string JsonGrammar::key() const {
  const bool in_string = at_ > At::kAfterValue && at_ <= At::kUtf8;
  std::string key = {static_cast<char>(at_), static_cast<char>(left_), static_cast<char>(depth_)};
  key.append(reinterpret_cast<const char*>(&objects_), sizeof(objects_));
  if (in_string) key += static_cast<char>(is_key_);
  if (at_ == At::kUtf8) key += std::string{static_cast<char>(low_), static_cast<char>(high_)};
  return at_ == At::kLiteral ? key + rest_ : key;
}

bool JsonGrammar::Take(uint8_t byte) {
  if (at_ <= At::kAfterValue) return TakeBetween(byte);
  if (at_ <= At::kUtf8) return TakeInString(byte);
  if (at_ == At::kEnd) return false;
  if (at_ != At::kLiteral) return TakeInNumber(byte);
  if (byte != static_cast<uint8_t>(*rest_)) return false;
  return *++rest_ != 0 || Go(At::kAfterValue);
}

bool JsonGrammar::TakeBetween(uint8_t byte) {
  if (IsBlank(byte)) return ++left_ <= (at_ == At::kStart ? 1 : kMostBlanks);  // the first word's own
  left_ = 0;
  switch (at_) {
    case At::kStart:
      return byte == '{' && BeginContainer(byte);
    case At::kFirstKey:
      return byte == '}' ? Close(byte) : byte == '"' && BeginString(true);
    case At::kKey:
      return byte == '"' && BeginString(true);
    case At::kColon:
      return byte == ':' && Go(At::kValue);
    case At::kFirstElement:
      return byte == ']' ? Close(byte) : BeginValue(byte);
    case At::kAfterValue:
      return TakeAfterValue(byte);
    default:
      return BeginValue(byte);
  }
}

bool JsonGrammar::TakeAfterValue(uint8_t byte) {
  if (byte == ',') return Go(in_object() ? At::kKey : At::kValue);
  return Close(byte);
}

bool JsonGrammar::BeginValue(uint8_t byte) {
  if (byte == '"') return BeginString(false);
  if (byte == '{' || byte == '[') return BeginContainer(byte);
  if (byte == '-') return Go(At::kMinus);
  if (byte == '0') return Go(At::kZero);
  if (IsDigit(byte)) return Go(At::kDigits);
  for (const char* literal : {"true", "false", "null"}) {
    if (byte != static_cast<uint8_t>(*literal)) continue;
    rest_ = literal + 1;
    return Go(At::kLiteral);
  }
  return false;
}

bool JsonGrammar::BeginContainer(uint8_t byte) {
  if (depth_ >= kMostDepth) return false;
  objects_ = objects_ << 1 | (byte == '{' ? 1 : 0);
  ++depth_;
  return Go(byte == '{' ? At::kFirstKey : At::kFirstElement);
}

bool JsonGrammar::Close(uint8_t byte) {
  if (byte != (in_object() ? '}' : ']')) return false;
  objects_ >>= 1;
  return Go(--depth_ == 0 ? At::kEnd : At::kAfterValue);
}

bool JsonGrammar::BeginString(bool is_key) {
  is_key_ = is_key;
  return Go(At::kString);
}

bool JsonGrammar::TakeInString(uint8_t byte) {
  switch (at_) {
    case At::kString:
      return BeginCharacter(byte);
    case At::kEscape:
      if (byte == 'u') {
        left_ = 4;
        return Go(At::kHex);
      }
      return std::strchr("\"\\/bfnrt", byte) != nullptr && byte != 0 && Go(At::kString);
    case At::kHex:
    case At::kHexAfterD:
      // Those from D800 to DFFF are halves of characters.
      if (!IsHex(byte) || (at_ == At::kHexAfterD && !(byte >= '0' && byte <= '7'))) return false;
      Go(left_ == 4 && (byte | 0x20) == 'd' ? At::kHexAfterD : At::kHex);
      return --left_ > 0 || Go(At::kString);
    default:  // a character of several bytes
      if (byte < low_ || byte > high_) return false;
      low_ = 0x80;
      high_ = 0xBF;
      return --left_ > 0 || Go(At::kString);
  }
}

// Of UTF-8: neither overlong forms, nor halves of surrogate pairs, nor what is beyond U+10FFFF.
bool JsonGrammar::BeginCharacter(uint8_t byte) {
  if (byte == '"') return Go(is_key_ ? At::kColon : At::kAfterValue);
  if (byte == '\\') return Go(At::kEscape);
  if (byte < 0x80) return byte >= 0x20;
  if (byte < 0xC2 || byte > 0xF4) return false;
  left_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
  high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
  return Go(At::kUtf8);
}

bool JsonGrammar::TakeInNumber(uint8_t byte) {
  const bool digit = IsDigit(byte), exponent = (byte | 0x20) == 'e';
  switch (at_) {
    case At::kMinus:
      return digit && Go(byte == '0' ? At::kZero : At::kDigits);
    case At::kPoint:
      return digit && Go(At::kFraction);
    case At::kE:
      return byte == '+' || byte == '-' ? Go(At::kSign) : digit && Go(At::kExponent);
    case At::kSign:
      return digit && Go(At::kExponent);
    default:
      break;
  }
  if (digit && at_ != At::kZero) return true;
  if (byte == '.' && (at_ == At::kZero || at_ == At::kDigits)) return Go(At::kPoint);
  if (exponent && at_ != At::kExponent) return Go(At::kE);
  Go(At::kAfterValue);  // the number ended before this byte
  return TakeBetween(byte);
}

}  // namespace trireme
