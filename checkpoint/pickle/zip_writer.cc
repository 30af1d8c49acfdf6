#include "checkpoint/pickle/zip_writer.h"

#include <algorithm>
#include <utility>

#include "checkpoint/pickle/zip_records.h"
#include "core/io/crc32.h"

namespace trireme {
namespace {

constexpr uint64_t kAlignment = 64, kFull32 = 0xffffffff, kFull16 = 0xffff;
constexpr uint16_t kNeedsZip64 = 45, kUtf8 = 1 << 11, kZip64Field = 1, kPaddingField = 0x4246;

// Fields of a record, little-endian.
class Record {
 public:
  Record& Two(uint64_t value) { return Number(value, 2); }
  Record& Four(uint64_t value) { return Number(value, 4); }
  Record& Eight(uint64_t value) { return Number(value, 8); }
  Record& Text(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& Number(uint64_t value, size_t width) {
    for (size_t i = 0; i < width; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }

  std::string bytes_;
};

// An extra field of this many bytes in all, its header included.
std::string Padding(uint64_t bytes) {
  return Record().Two(kPaddingField).Two(bytes - 4).Text(std::string(bytes - 4, 'Z')).bytes();
}

}  // namespace

ZipWriter::ZipWriter(ByteSink sink, std::string top, uint64_t zip64_from)
    : sink_(std::move(sink)), top_(std::move(top)), zip64_from_(zip64_from) {}

void ZipWriter::Write(const void* data, uint64_t bytes) {
  if (sink_ && bytes > 0) sink_(data, bytes);
  written_ += bytes;
}

void ZipWriter::Add(const std::string& name, const void* data, uint64_t bytes) {
  const uint32_t crc = sink_ ? Crc32(data, bytes) : 0;
  members_.push_back({top_ + "/" + name, bytes, written_, crc});
  Write(LocalHeader(members_.back()));
  Write(data, bytes);
}

std::string ZipWriter::LocalHeader(const Member& member) const {
  const bool large = IsLarge(member.bytes);
  std::string extra;
  if (large) extra = Record().Two(kZip64Field).Two(16).Eight(member.bytes).Eight(member.bytes).bytes();
  const uint64_t data = member.offset + kZipLocalBytes + member.name.size() + extra.size();
  const uint64_t gap = (kAlignment - data % kAlignment) % kAlignment;
  if (gap > 0) extra += Padding(gap < 4 ? gap + kAlignment : gap);
  return Record()
      .Four(kZipLocalHeader)
      .Two(large ? kNeedsZip64 : 0)
      .Two(kUtf8)
      .Two(0)   // stored
      .Four(0)  // no date
      .Four(member.crc)
      .Four(large ? kFull32 : member.bytes)
      .Four(large ? kFull32 : member.bytes)
      .Two(member.name.size())
      .Two(extra.size())
      .Text(member.name)
      .Text(extra)
      .bytes();
}

std::string ZipWriter::Entry(const Member& member) const {
  const bool large = IsLarge(member.bytes), far = IsLarge(member.offset);
  Record fields;
  if (large) fields.Eight(member.bytes).Eight(member.bytes);
  if (far) fields.Eight(member.offset);
  std::string extra;
  if (large || far) extra = Record().Two(kZip64Field).Two(fields.bytes().size()).Text(fields.bytes()).bytes();
  return Record()
      .Four(kZipEntry)
      .Two(0)
      .Two(large || far ? kNeedsZip64 : 0)
      .Two(kUtf8)
      .Two(0)
      .Four(0)
      .Four(member.crc)
      .Four(large ? kFull32 : member.bytes)
      .Four(large ? kFull32 : member.bytes)
      .Two(member.name.size())
      .Two(extra.size())
      .Two(0)   // no comment
      .Two(0)   // of the first disk
      .Two(0)   // attributes
      .Four(0)  // attributes
      .Four(far ? kFull32 : member.offset)
      .Text(member.name)
      .Text(extra)
      .bytes();
}

uint64_t ZipWriter::Close() {
  const uint64_t directory = written_, count = members_.size();
  for (const Member& member : members_) Write(Entry(member));
  const uint64_t bytes = written_ - directory, end64 = written_;
  if (IsLarge(directory) || count >= kFull16) {
    Write(Record().Four(kZipEnd64).Eight(44).Two(kNeedsZip64).Two(kNeedsZip64).Four(0).Four(0).bytes());
    Write(Record().Eight(count).Eight(count).Eight(bytes).Eight(directory).bytes());
    Write(Record().Four(kZipLocator64).Four(0).Eight(end64).Four(1).bytes());
  }
  Record end;
  end.Four(kZipEnd).Two(0).Two(0).Two(std::min(count, kFull16)).Two(std::min(count, kFull16)).Four(bytes);
  Write(end.Four(IsLarge(directory) ? kFull32 : directory).Two(0).bytes());
  return written_;
}

}  // namespace trireme
