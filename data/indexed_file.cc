#include "data/indexed_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr char kIndexMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr size_t kHeader = 34;
// Bytes of each element type by its code; 0: not an integer.
constexpr std::array<size_t, 9> kWidths = {0, 1, 1, 2, 4, 8, 0, 0, 2};
constexpr uint8_t kInt32 = 4, kUint16 = 8;

template <typename T>
T Load(const std::byte* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

}  // namespace

IndexedFile::IndexedFile(const std::filesystem::path& prefix)
    : index_(prefix.string() + ".idx"), tokens_(prefix.string() + ".bin") {
  const std::string name = prefix.string() + ".idx";
  const std::span<const std::byte> bytes = index_.bytes();
  if (bytes.size() < kHeader || std::memcmp(bytes.data(), kIndexMagic, sizeof kIndexMagic) != 0) {
    throw InputError(name, ": is not a Megatron index; wanted a file that begins with MMIDIDX");
  }
  const auto version = Load<uint64_t>(bytes.data() + 9);
  if (version != 1) throw InputError(name, ": has version ", version, "; wanted 1");
  kind_ = Load<uint8_t>(bytes.data() + 17);
  width_ = kind_ < static_cast<int>(kWidths.size()) ? kWidths[kind_] : 0;
  if (width_ == 0) throw InputError(name, ": has element type ", kind_, "; wanted an integer type: 1 to 5, or 8");
  const auto sequences = Load<uint64_t>(bytes.data() + 18), bounds = Load<uint64_t>(bytes.data() + 26);
  const bool fits = sequences <= bytes.size() / 12 && bounds <= bytes.size() / 8 && bounds >= 1;
  if (!fits || kHeader + 12 * sequences + 8 * bounds > bytes.size()) {
    throw InputError(name, ": declares ", sequences, " sequences and ", bounds, " bounds, but has only ", bytes.size(),
                     " bytes; is it truncated?");
  }
  sequences_ = static_cast<int64_t>(sequences);
  documents_ = static_cast<int64_t>(bounds) - 1;
  // Megatron writes the sequences one after the other: an offset or a length that says otherwise is damaged.
  int64_t wanted = 0;
  for (int64_t i = 0; i < sequences_; ++i) {
    const auto begin = Load<int64_t>(bytes.data() + kHeader + 4 * sequences + 8 * i);
    int64_t end = 0;  // a damaged offset may overflow it
    const bool sums = !__builtin_add_overflow(begin, SequenceLength(i) * static_cast<int64_t>(width_), &end);
    if (!sums || begin < 0 || begin > end || end > static_cast<int64_t>(tokens_.bytes().size())) {
      throw InputError(prefix.string(), ".bin: has ", tokens_.bytes().size(), " bytes; sequence ", i, " ends at ", end,
                       ". Do both files belong together, and are they complete?");
    }
    if (begin != wanted) {
      throw InputError(name, ": sequence ", i, " begins at byte ", begin, "; the one before ends at ", wanted,
                       ". Is the file damaged?");
    }
    wanted = end;
  }
  if (wanted != static_cast<int64_t>(tokens_.bytes().size())) {
    throw InputError(prefix.string(), ".bin: has ", tokens_.bytes().size(), " bytes; the sequences of its .idx end at ",
                     wanted, ". Do both files belong together, and are they complete?");
  }
  for (int64_t i = 0; i <= documents_; ++i) {
    const int64_t least = i > 0 ? FirstSequence(i - 1) : 0;
    if (FirstSequence(i) < least || FirstSequence(i) > sequences_) {
      throw InputError(name, ": document ", i, " begins at sequence ", FirstSequence(i), "; wanted ", least, " to ",
                       sequences_);
    }
  }
}

int64_t IndexedFile::SequenceLength(int64_t sequence) const {
  return Load<int32_t>(index_.bytes().data() + kHeader + 4 * sequence);
}

int64_t IndexedFile::FirstSequence(int64_t document) const {
  return Load<int64_t>(index_.bytes().data() + kHeader + 12 * sequences_ + 8 * document);
}

int64_t IndexedFile::DocumentLength(int64_t document) const {
  int64_t length = 0;
  for (int64_t i = FirstSequence(document); i < FirstSequence(document + 1); ++i) length += SequenceLength(i);
  return length;
}

int64_t IndexedFile::Token(const std::byte* place) const {
  switch (kind_) {
    case 1:
      return Load<uint8_t>(place);
    case 2:
      return Load<int8_t>(place);
    case 3:
      return Load<int16_t>(place);
    case kInt32:
      return Load<int32_t>(place);
    case kUint16:
      return Load<uint16_t>(place);
    default:
      return Load<int64_t>(place);
  }
}

void IndexedFile::Append(int64_t document, int64_t begin, int64_t count, std::vector<int64_t>& out) const {
  for (int64_t i = FirstSequence(document); i < FirstSequence(document + 1) && count > 0; ++i) {
    const int64_t length = SequenceLength(i), take = std::min(count, length - begin);
    if (take > 0) {
      const auto first = Load<int64_t>(index_.bytes().data() + kHeader + 4 * sequences_ + 8 * i);
      const std::byte* place = tokens_.bytes().data() + first + begin * static_cast<int64_t>(width_);
      for (int64_t token = 0; token < take; ++token) out.push_back(Token(place + token * static_cast<int64_t>(width_)));
      count -= take;
    }
    begin = std::max<int64_t>(begin - length, 0);
  }
}

IndexedWriter::IndexedWriter(const std::filesystem::path& prefix, int64_t vocabulary)
    : tokens_(prefix.string() + ".bin"), index_(prefix.string() + ".idx"), narrow_(vocabulary < 65500) {}

void IndexedWriter::Add(std::span<const int64_t> ids) {
  const auto write = [&]<typename T>(T) {
    const std::vector<T> narrow(ids.begin(), ids.end());
    tokens_.Write(narrow.data(), narrow.size() * sizeof(T));
    begins_.push_back(bytes_);
    bytes_ += static_cast<int64_t>(narrow.size() * sizeof(T));
  };
  narrow_ ? write(uint16_t{}) : write(int32_t{});
  lengths_.push_back(static_cast<int32_t>(ids.size()));
}

void IndexedWriter::Commit() {
  const uint64_t version = 1, sequences = lengths_.size(), bounds = sequences + 1;
  const uint8_t kind = narrow_ ? kUint16 : kInt32;
  index_.Write(kIndexMagic, sizeof kIndexMagic);
  index_.Write(&version, sizeof version);
  index_.Write(&kind, sizeof kind);
  index_.Write(&sequences, sizeof sequences);
  index_.Write(&bounds, sizeof bounds);
  index_.Write(lengths_.data(), lengths_.size() * sizeof(int32_t));
  index_.Write(begins_.data(), begins_.size() * sizeof(int64_t));
  for (uint64_t document = 0; document < bounds; ++document) index_.Write(&document, sizeof document);
  tokens_.Commit();  // an index exists only if its tokens do
  index_.Commit();
}

}  // namespace trireme
