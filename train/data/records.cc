#include "train/data/records.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/io/gzip.h"
#include "core/io/mapped_file.h"
#include "train/data/csv.h"

// A new format is a file with its function and a line here: the file extension, the function.
// clang-format off
#define TRIREME_RECORD_FORMATS(FORMAT) \
  FORMAT(".jsonl", OpenJsonLines)      \
  FORMAT(".ndjson", OpenJsonLines)     \
  FORMAT(".json", OpenJson)            \
  FORMAT(".jsonl.gz", OpenJsonLines)   \
  FORMAT(".json.gz", OpenJson)         \
  FORMAT(".txt.gz", OpenTextLines)     \
  FORMAT(".csv", OpenCsv)              \
  FORMAT(".tsv", OpenCsv)              \
  FORMAT(".txt", OpenTextLines)
// clang-format on

namespace trireme {

#define DECLARE(ending, function) std::unique_ptr<RecordFile> function(const std::filesystem::path& path);
TRIREME_RECORD_FORMATS(DECLARE)
#undef DECLARE

namespace {

// A file's text: mapped, or where it is compressed whole in memory.
class FileText {
 public:
  explicit FileText(const std::filesystem::path& path) : path_(path) {
    if (path.extension() == ".gz") {
      unpacked_ = ReadGzipFile(path);
    } else {
      mapped_.emplace(path);
    }
  }
  std::string_view view() const {
    if (!mapped_) return unpacked_;
    return {reinterpret_cast<const char*>(mapped_->bytes().data()), mapped_->bytes().size()};
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
  std::optional<MappedFile> mapped_;
  std::string unpacked_;
};

// The lines of a file that are not blank.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& path) : file_(path) {
    const std::string_view text = file_.view();
    uint64_t number = 1;
    for (size_t begin = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; begin < text.size(); ++number) {
      size_t end = text.find('\n', begin);
      if (end == std::string_view::npos) end = text.size();
      if (!IsBlank(text.substr(begin, end - begin))) positions_.push_back({begin, number});
      begin = end + 1;
    }
  }
  int64_t size() const { return static_cast<int64_t>(positions_.size()); }
  std::string_view Line(int64_t index) const {
    const std::string_view rest = file_.view().substr(positions_[index].begin);
    std::string_view line = rest.substr(0, rest.find('\n'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  std::string Where(int64_t index) const {
    return Concat(file_.path().string(), ":", positions_[index].number);
  }

 private:
  struct Place {
    uint64_t begin, number;
  };
  const FileText file_;
  std::vector<Place> positions_;
};

class JsonLines : public RecordFile {
 public:
  explicit JsonLines(const std::filesystem::path& path) : lines_(path) {}
  int64_t size() const override { return lines_.size(); }
  std::string Where(int64_t record) const override { return lines_.Where(record); }
  Json Read(int64_t record) const override {
    const std::string_view line = lines_.Line(record);
    Json value = TryParseJson(line);
    if (value.is_object()) return value;
    if (IsNestedTooDeeply(line)) {
      throw InputError(Where(record), ": is nested too deeply; at most ", kDeepestJson, " levels are read");
    }
    throw InputError(Where(record), ": is not a JSON object: ", line.substr(0, 60),
                     "; repair the line, or set data.on_error to skip");
  }

 private:
  const Lines lines_;
};

class TextLines : public RecordFile {
 public:
  explicit TextLines(const std::filesystem::path& path) : lines_(path) {}
  int64_t size() const override { return lines_.size(); }
  std::string Where(int64_t record) const override { return lines_.Where(record); }
  Json Read(int64_t record) const override { return {{"text", lines_.Line(record)}}; }

 private:
  const Lines lines_;
};

class RecordList : public RecordFile {
 public:
  RecordList(std::vector<Json> records, std::string path)
      : records_(std::move(records)), path_(std::move(path)) {}
  int64_t size() const override { return static_cast<int64_t>(records_.size()); }
  std::string Where(int64_t record) const override { return Concat(path_, ": record ", record + 1); }
  Json Read(int64_t record) const override {
    if (records_[record].is_object()) return records_[record];
    throw InputError(Where(record), ": is not a JSON object: ", records_[record].dump().substr(0, 60));
  }

 private:
  const std::vector<Json> records_;
  const std::string path_;
};

struct Format {
  const char* ending;
  std::unique_ptr<RecordFile> (*open)(const std::filesystem::path&);
};
#define LIST(ending, function) {ending, function},
constexpr Format kFormats[] = {TRIREME_RECORD_FORMATS(LIST)};
#undef LIST

const Format* FormatOf(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const auto found =
      std::ranges::find_if(kFormats, [&](const Format& format) { return name.ends_with(format.ending); });
  return found == std::end(kFormats) ? nullptr : &*found;
}

}  // namespace

// A list of objects, or one object per line with the same extension.
std::unique_ptr<RecordFile> OpenJson(const std::filesystem::path& path) {
  const std::string text = path.extension() == ".gz" ? ReadGzipFile(path) : ReadTextFile(path.string());
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '[') return std::make_unique<JsonLines>(path);
  return std::make_unique<RecordList>(ParseJson(text, path.string()).get<std::vector<Json>>(), path.string());
}

std::unique_ptr<RecordFile> OpenCsv(const std::filesystem::path& path) {
  const char separator = path.extension() == ".tsv" ? '\t' : ',';
  return std::make_unique<RecordList>(ReadCsv(path.string(), separator), path.string());
}

std::unique_ptr<RecordFile> OpenJsonLines(const std::filesystem::path& path) {
  return std::make_unique<JsonLines>(path);
}

std::unique_ptr<RecordFile> OpenTextLines(const std::filesystem::path& path) {
  return std::make_unique<TextLines>(path);
}

std::string RecordEndings() {
  return Join(kFormats, ", ", [](const Format& format) { return format.ending; });
}

bool HoldsRecords(const std::filesystem::path& path) { return FormatOf(path) != nullptr; }

std::unique_ptr<RecordFile> OpenRecords(const std::filesystem::path& path) {
  const Format* format = FormatOf(path);
  if (format != nullptr) return format->open(path);
  const bool columns = path.extension() == ".parquet" || path.extension() == ".arrow";
  throw InputError(path.string(), ": files ending in '", path.extension().string(), "' are unsupported; wanted ",
                   RecordEndings(), " or a Megatron .bin with its .idx",
                   columns ? "; datasets.load_dataset(…).to_json(\"a.jsonl\") writes one" : "",
                   path.extension() == ".zst" ? "; zstd -d unpacks it" : "");
}

}  // namespace trireme
