#include "checkpoint/pickle/zip.h"

#include <cstdint>
#include <utility>

#include "checkpoint/pickle/zip_records.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

constexpr uint64_t kEndBytes = 22, kLocator64Bytes = 20, kEntryBytes = 46, kLongestComment = 65535;

// Little-endian numbers at any offset; refuses to read past the end.
class Fields {
 public:
  Fields(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  uint64_t Number(uint64_t at, size_t width) const {
    const auto field = Part(at, width);
    uint64_t number = 0;
    for (size_t i = width; i-- > 0;) number = number << 8 | static_cast<uint64_t>(field[i]);
    return number;
  }
  std::span<const std::byte> Part(uint64_t at, uint64_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) Refuse("it is cut off");
    return bytes_.subspan(at, count);
  }
  std::string Text(uint64_t at, uint64_t count) const {
    const auto part = Part(at, count);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  [[noreturn]] void Refuse(const std::string& why) const {
    throw InputError(where_, ": is no complete file of torch.save: ", why, "; save or copy it again");
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& where_;
};

// The record that ends a zip, searched backwards over its comment.
uint64_t EndRecord(std::span<const std::byte> bytes, const Fields& fields) {
  if (bytes.size() < kEndBytes) fields.Refuse("it is too short");
  const uint64_t last = bytes.size() - kEndBytes;
  for (uint64_t back = 0; back <= last && back <= kLongestComment; ++back) {
    const uint64_t at = last - back;
    if (fields.Number(at, 4) == kZipEnd && fields.Number(at + 20, 2) == back) return at;
  }
  fields.Refuse("its zip has no directory at the end");
}

struct Entry {
  uint64_t size, packed_size, local_header;
};

// Where a field of 32 bits is full, its value is in the extra field, in the order of the struct.
void ReadZip64(const Fields& fields, uint64_t at, uint64_t count, Entry& entry) {
  const uint64_t end = at + count;
  while (at + 4 <= end) {
    const uint64_t kind = fields.Number(at, 2), bytes = fields.Number(at + 2, 2);
    uint64_t next = at + 4;
    if (kind == 1) {
      for (uint64_t* field : {&entry.size, &entry.packed_size, &entry.local_header}) {
        if (*field != 0xffffffff) continue;
        *field = fields.Number(next, 8);
        next += 8;
      }
      return;
    }
    at += 4 + bytes;
  }
}

std::string WithoutTop(const std::string& name) {
  const size_t slash = name.find('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

}  // namespace

bool LooksLikeZip(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'};
}

ZipDirectory::ZipDirectory(std::span<const std::byte> bytes, std::string where)
    : bytes_(bytes), where_(std::move(where)) {
  const Fields fields(bytes_, where_);
  const uint64_t end = EndRecord(bytes_, fields);
  uint64_t count = fields.Number(end + 10, 2), directory = fields.Number(end + 16, 4);
  if (end >= kLocator64Bytes && fields.Number(end - kLocator64Bytes, 4) == kZipLocator64) {
    const uint64_t end64 = fields.Number(end - kLocator64Bytes + 8, 8);
    if (fields.Number(end64, 4) != kZipEnd64) fields.Refuse("its zip64 directory is not where it should be");
    count = fields.Number(end64 + 32, 8);
    directory = fields.Number(end64 + 48, 8);
  }
  ReadEntries(directory, count);
}

void ZipDirectory::ReadEntries(uint64_t at, uint64_t count) {
  const Fields fields(bytes_, where_);
  for (uint64_t i = 0; i < count; ++i) {
    if (fields.Number(at, 4) != kZipEntry) fields.Refuse("an entry of its zip directory is broken");
    const uint64_t name_bytes = fields.Number(at + 28, 2), extra_bytes = fields.Number(at + 30, 2);
    const std::string name = fields.Text(at + kEntryBytes, name_bytes);
    Entry entry{fields.Number(at + 24, 4), fields.Number(at + 20, 4), fields.Number(at + 42, 4)};
    ReadZip64(fields, at + kEntryBytes + name_bytes, extra_bytes, entry);
    if (fields.Number(at + 10, 2) != 0 || entry.size != entry.packed_size || (fields.Number(at + 8, 2) & 1) != 0)
      fields.Refuse("its member '" + Printable(name) + "' is compressed or encrypted, which torch.save never does");
    const uint64_t local = entry.local_header;
    if (fields.Number(local, 4) != kZipLocalHeader)
      fields.Refuse("its member '" + Printable(name) + "' is not where it should be");
    const uint64_t data = local + kZipLocalBytes + fields.Number(local + 26, 2) + fields.Number(local + 28, 2);
    if (!members_.emplace(WithoutTop(name), fields.Part(data, entry.size)).second)
      fields.Refuse("its member '" + Printable(name) + "' is there twice");
    at += kEntryBytes + name_bytes + extra_bytes + fields.Number(at + 32, 2);
  }
}

std::span<const std::byte> ZipDirectory::Find(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end())
    throw InputError(where_, ": is no complete file of torch.save: it has no '", Printable(name), "'");
  return found->second;
}

}  // namespace trireme
