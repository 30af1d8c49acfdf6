#include "checkpoint/safetensors.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace trireme {
namespace {

using SortedJson = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;

constexpr std::array<std::pair<DType, std::string_view>, 11> kNames{{{DType::kFp64, "F64"},
                                                                     {DType::kFp32, "F32"},
                                                                     {DType::kFp16, "F16"},
                                                                     {DType::kBf16, "BF16"},
                                                                     {DType::kFp8E4M3, "F8_E4M3"},
                                                                     {DType::kInt64, "I64"},
                                                                     {DType::kInt32, "I32"},
                                                                     {DType::kInt16, "I16"},
                                                                     {DType::kInt8, "I8"},
                                                                     {DType::kUint8, "U8"},
                                                                     {DType::kBool, "BOOL"}}};

// Scans the text once for what a parser would silently accept: duplicate keys, excessive nesting. (nlohmann's
// parser callbacks would also do, but they visit all values read so far after each object.)
class HeaderFaults : public nlohmann::json_sax<SortedJson> {
 public:
  const std::string& fault() const { return fault_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(); }
  bool end_array() override { return Close(); }
  bool key(string_t& key) override {
    if (keys_.back().insert(key).second) return true;
    fault_ = Concat("has the key '", key, "' twice");
    return false;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    fault_ = "is not a JSON object";
    return false;
  }

 private:
  static constexpr size_t kDeepest = 8;

  bool Open() {
    keys_.emplace_back();
    if (keys_.size() <= kDeepest) return true;
    fault_ = "is nested too deeply";
    return false;
  }
  bool Close() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects
  std::string fault_;
};

SortedJson ParseStrictly(std::string_view text) {
  HeaderFaults faults;
  SortedJson::sax_parse(text.begin(), text.end(), &faults);
  if (!faults.fault().empty()) throw InputError(faults.fault());
  SortedJson header = SortedJson::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) throw InputError("is not a JSON object");
  return header;
}

Shape ReadShape(const SortedJson& entry) {
  const auto found = entry.find("shape");
  if (found == entry.end() || !found->is_array()) throw InputError("has no shape");
  Shape shape;
  uint64_t elements = 1;
  for (const SortedJson& size : *found) {
    if (!size.is_number_unsigned()) throw InputError("has an invalid shape: ", found->dump());
    const auto value = size.get<uint64_t>();
    if (__builtin_mul_overflow(elements, value, &elements) || elements > std::numeric_limits<int32_t>::max() * 1e6) {
      throw InputError("has an impossible shape: ", found->dump());
    }
    shape.push_back(static_cast<int64_t>(value));
  }
  return shape;
}

TensorView ReadEntry(const SortedJson& entry, std::span<const std::byte> buffer) {
  if (!entry.is_object()) throw InputError("is not an object");
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) throw InputError("has no dtype");
  TensorView view{DTypeFromSafetensors(dtype->get<std::string>()), ReadShape(entry), {}};
  const auto offsets = entry.find("data_offsets");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 || !(*offsets)[0].is_number_unsigned() ||
      !(*offsets)[1].is_number_unsigned()) {
    throw InputError("has no pair of data_offsets");
  }
  const auto begin = (*offsets)[0].get<uint64_t>(), end = (*offsets)[1].get<uint64_t>();
  if (begin > end || end > buffer.size()) {
    throw InputError("is at bytes ", begin, " to ", end, " of a buffer of ", buffer.size(),
                     " bytes; is the file truncated?");
  }
  const uint64_t wanted = static_cast<uint64_t>(Elements(view.shape)) * static_cast<uint64_t>(ByteSize(view.dtype));
  if (end - begin != wanted) {
    throw InputError("has ", end - begin, " bytes; shape ", ShapeText(view.shape), " in ", Name(view.dtype), " needs ",
                     wanted);
  }
  view.bytes = buffer.subspan(begin, end - begin);
  return view;
}

}  // namespace

std::string_view SafetensorsName(DType dtype) {
  for (const auto& [known, name] : kNames) {
    if (known == dtype) return name;
  }
  TRIREME_CHECK(false) << "dtype without a safetensors name";
  return {};
}

DType DTypeFromSafetensors(std::string_view name) {
  for (const auto& [dtype, known] : kNames) {
    if (known == name) return dtype;
  }
  throw InputError("has dtype '", name, "', which is not supported");
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  try {
    ReadHeader();
  } catch (const Error& error) {
    throw InputError(path.string(), ": ", error.what());
  }
}

void SafetensorsFile::ReadHeader() {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < kLengthBytes) throw InputError("has ", bytes.size(), " bytes; a safetensors file has at least 8");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kLongestHeader || length > bytes.size() - kLengthBytes) {
    throw InputError("declares a header of ", length, " bytes in a file of ", bytes.size(), " bytes");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  SortedJson header;
  try {
    if (text.empty() || text.front() != '{') throw InputError("does not start with '{'");
    header = ParseStrictly(text);
  } catch (const Error& error) {
    throw InputError("the header ", error.what());
  }
  const auto buffer = bytes.subspan(kLengthBytes + length);
  for (const auto& [name, entry] : header.items()) {
    try {
      if (name == "__metadata__") {
        if (!entry.is_object()) throw InputError("is not an object");
        for (const auto& [key, value] : entry.items()) {
          if (!value.is_string()) throw InputError("has a value that is not a string at '", key, "'");
          metadata_[key] = value.get<std::string>();
        }
      } else {
        tensors_[name] = ReadEntry(entry, buffer);
      }
    } catch (const Error& error) {
      throw InputError("tensor '", name, "' ", error.what());
    }
  }
  CheckNoHoles(buffer.size());
}

void SafetensorsFile::Release(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return;
  constexpr uintptr_t kPage = 65536;  // a multiple of every page size
  const auto first = reinterpret_cast<uintptr_t>(found->second.bytes.data());
  const uintptr_t begin = (first + kPage - 1) / kPage * kPage;
  const uintptr_t end = (first + found->second.bytes.size()) / kPage * kPage;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

// The format allows neither holes nor overlaps; either means that the offsets are wrong.
void SafetensorsFile::CheckNoHoles(uint64_t buffer_bytes) const {
  std::vector<std::pair<const std::byte*, const std::string*>> order;
  for (const auto& [name, view] : tensors_) {
    if (!view.bytes.empty()) order.emplace_back(view.bytes.data(), &name);
  }
  std::sort(order.begin(), order.end());
  const std::byte* expected = file_.bytes().data() + file_.bytes().size() - buffer_bytes;
  for (const auto& [begin, name] : order) {
    if (begin != expected) throw InputError("tensor '", *name, "' does not start where the previous one ends");
    expected = begin + tensors_.at(*name).bytes.size();
  }
  const std::byte* end = file_.bytes().data() + file_.bytes().size();
  if (expected != end) throw InputError("has ", end - expected, " bytes after the last tensor");
}

}  // namespace trireme
