#include "checkpoint/pickle/pickled.h"

#include <bit>
#include <limits>

namespace trireme {
namespace {

// The opcodes of protocol 2 that are written here.
constexpr char kMark = '(', kStop = '.', kNone = 'N', kInt32 = 'J', kFloat = 'G', kText = 'X', kGlobal = 'c';
constexpr char kReduce = 'R', kBuild = 'b', kTuple = 't', kAppends = 'e', kSetItems = 'u', kEmptyList = ']';
constexpr char kEmptyDict = '}', kEmptyTuple = ')', kReference = 'Q';
constexpr char kProtocol = '\x80', kNewObject = '\x81', kTrue = '\x88', kFalse = '\x89', kLong = '\x8a';

std::string LittleEndian(uint64_t value, size_t width) {
  std::string bytes;
  for (size_t i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string Joined(const std::vector<std::string>& values) {
  std::string all;
  for (const std::string& value : values) all += value;
  return all;
}

}  // namespace

std::string PickledNone() { return {kNone}; }

std::string PickledBool(bool value) { return {value ? kTrue : kFalse}; }

std::string PickledInt(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  if (value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max())
    return kInt32 + LittleEndian(bits, 4);
  return std::string{kLong, '\x08'} + LittleEndian(bits, 8);
}

std::string PickledFloat(double value) {
  const std::string little = LittleEndian(std::bit_cast<uint64_t>(value), 8);
  return kFloat + std::string(little.rbegin(), little.rend());
}

std::string PickledText(std::string_view text) { return kText + LittleEndian(text.size(), 4) + std::string(text); }

std::string PickledTuple(const std::vector<std::string>& values) {
  return values.empty() ? std::string{kEmptyTuple} : kMark + Joined(values) + kTuple;
}

std::string PickledTuple(const Shape& numbers) {
  std::vector<std::string> values;
  for (const int64_t number : numbers) values.push_back(PickledInt(number));
  return PickledTuple(values);
}

std::string PickledList(const std::vector<std::string>& values) {
  const std::string list{kEmptyList};
  return values.empty() ? list : list + kMark + Joined(values) + kAppends;
}

std::string PickledDict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string dict{kEmptyDict};
  if (items.empty()) return dict;
  dict += kMark;
  for (const auto& [key, value] : items) dict.append(key).append(value);
  return dict + kSetItems;
}

std::string PickledGlobal(std::string_view module, std::string_view name) {
  return std::string{kGlobal}.append(module).append("\n").append(name).append("\n");
}

std::string PickledCall(const std::string& global, const std::vector<std::string>& arguments) {
  return global + PickledTuple(arguments) + kReduce;
}

std::string PickledObject(const std::string& global, const std::string& state) {
  return global + std::string{kEmptyTuple, kNewObject} + state + kBuild;
}

std::string PickledReference(const std::vector<std::string>& id) { return PickledTuple(id) + kReference; }

std::string PickleOf(const std::string& value) { return std::string{kProtocol, '\x02'} + value + kStop; }

}  // namespace trireme
