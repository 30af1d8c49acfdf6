#include "data/records.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/csv.h"
#include "data/file_text.h"
#include "data/record_form.h"

// A new format is a file with its function and a line here: the file extension, the function.
// clang-format off
#define TRIREME_RECORD_FORMATS(FORMAT) \
  FORMAT(".jsonl", OpenJsonLines)      \
  FORMAT(".ndjson", OpenJsonLines)     \
  FORMAT(".json", OpenJson)            \
  FORMAT(".jsonl.gz", OpenJsonLines)   \
  FORMAT(".json.gz", OpenJson)         \
  FORMAT(".txt.gz", OpenTextLines)     \
  FORMAT(".jsonl.zst", OpenJsonLines)  \
  FORMAT(".json.zst", OpenJson)        \
  FORMAT(".txt.zst", OpenTextLines)    \
  FORMAT(".csv", OpenCsv)              \
  FORMAT(".tsv", OpenCsv)              \
  FORMAT(".txt", OpenTextLines)        \
  FORMAT(".parquet", OpenColumns)      \
  FORMAT(".arrow", OpenColumns)
// clang-format on

namespace trireme {

#define DECLARE(ending, function) std::unique_ptr<RecordFile> function(const std::filesystem::path& path);
TRIREME_RECORD_FORMATS(DECLARE)
#undef DECLARE

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // as some editors put it before UTF-8

// The lines of a file that are not blank.
class Lines {
 public:
  explicit Lines(std::unique_ptr<const FileText> file) : file_(std::move(file)) {
    const std::string_view text = file_->view();
    uint64_t number = 1;
    for (size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0; begin < text.size(); ++number) {
      size_t end = text.find('\n', begin);
      if (end == std::string_view::npos) end = text.size();
      if (!IsBlank(text.substr(begin, end - begin))) positions_.push_back({begin, number});
      begin = end + 1;
    }
  }
  int64_t size() const { return static_cast<int64_t>(positions_.size()); }
  std::string_view Line(int64_t index) const {
    const std::string_view rest = file_->view().substr(positions_[index].begin);
    std::string_view line = rest.substr(0, rest.find('\n'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  std::string Where(int64_t index) const { return Concat(file_->path().string(), ":", positions_[index].number); }

 private:
  struct Place {
    uint64_t begin, number;
  };
  const std::unique_ptr<const FileText> file_;
  std::vector<Place> positions_;
};

class JsonLines : public RecordFile {
 public:
  explicit JsonLines(std::unique_ptr<const FileText> file) : lines_(std::move(file)) {}
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
  explicit TextLines(std::unique_ptr<const FileText> file) : lines_(std::move(file)) {}
  int64_t size() const override { return lines_.size(); }
  std::string Where(int64_t record) const override { return lines_.Where(record); }
  Json Read(int64_t record) const override { return {{"text", lines_.Line(record)}}; }

 private:
  const Lines lines_;
};

class RecordList : public RecordFile {
 public:
  RecordList(std::vector<Json> records, std::string path) : records_(std::move(records)), path_(std::move(path)) {}
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

// Records of a described data set, as if they were written in our own words.
class FormedRecords : public RecordFile {
 public:
  FormedRecords(std::unique_ptr<RecordFile> records, std::shared_ptr<const RecordForm> form)
      : records_(std::move(records)), form_(std::move(form)) {}
  int64_t size() const override { return records_->size(); }
  std::string Where(int64_t record) const override { return records_->Where(record); }
  Json Read(int64_t record) const override {
    return UseRecord(*records_, record, [&](const Json& value) { return ReadFormed(value, *form_); });
  }

 private:
  const std::unique_ptr<RecordFile> records_;
  const std::shared_ptr<const RecordForm> form_;
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
  if (path.filename() == "dataset_info.json") {
    throw InputError(path.string(),
                     ": describes data sets and holds no records; set data.dataset_info to it, and name ",
                     "data sets of it in data.train");
  }
  auto file = std::make_unique<const FileText>(path);
  std::string_view text = file->view();
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '[') return std::make_unique<JsonLines>(std::move(file));
  return std::make_unique<RecordList>(ParseJson(std::string(text), path.string()).get<std::vector<Json>>(),
                                      path.string());
}

std::unique_ptr<RecordFile> OpenCsv(const std::filesystem::path& path) {
  const char separator = path.extension() == ".tsv" ? '\t' : ',';
  return std::make_unique<RecordList>(ReadCsv(path.string(), separator), path.string());
}

std::unique_ptr<RecordFile> OpenJsonLines(const std::filesystem::path& path) {
  return std::make_unique<JsonLines>(std::make_unique<const FileText>(path, UnpackedAs::kLines));
}

std::unique_ptr<RecordFile> OpenTextLines(const std::filesystem::path& path) {
  return std::make_unique<TextLines>(std::make_unique<const FileText>(path, UnpackedAs::kLines));
}

std::string RecordEndings() {
  return Join(kFormats, ", ", [](const Format& format) { return format.ending; });
}

bool HoldsRecords(const std::filesystem::path& path) { return FormatOf(path) != nullptr; }

std::unique_ptr<RecordFile> OpenRecords(const DataFile& file) {
  const std::filesystem::path& path = file.path;
  const Format* format = FormatOf(path);
  if (format != nullptr && file.form) return std::make_unique<FormedRecords>(format->open(path), file.form);
  if (format != nullptr) return format->open(path);
  throw InputError(path.string(), ": files ending in '", path.extension().string(), "' are unsupported; wanted ",
                   RecordEndings(), " or a Megatron .bin with its .idx");
}

}  // namespace trireme
