#include "data/csv.h"

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/utf8.h"

namespace trireme {
namespace {

class CsvReader {
 public:
  CsvReader(const std::string& path, char separator) : path_(path), separator_(separator), text_(ReadTextFile(path)) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  bool AtEnd() const { return at_ >= text_.size(); }
  int64_t line() const { return line_; }

  std::vector<std::string> ReadRecord() {
    std::vector<std::string> fields;
    bool more = true;
    while (more) {
      fields.push_back(!AtEnd() && text_[at_] == '"' ? Quoted() : Plain());
      more = !AtEnd() && text_[at_] == separator_;
      if (more) ++at_;
    }
    if (!AtEnd() && text_[at_] == '\r') ++at_;
    if (!AtEnd() && text_[at_] == '\n') {
      ++at_;
      ++line_;
    }
    return fields;
  }

 private:
  std::string Plain() {
    const size_t begin = at_;
    while (!AtEnd() && text_[at_] != separator_ && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::string Quoted() {
    std::string field;
    const int64_t opened = line_;
    for (++at_; !AtEnd(); ++at_) {
      line_ += text_[at_] == '\n';
      if (text_[at_] != '"') {
        field += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        field += text_[at_++];
      } else {
        ++at_;
        return field + Plain();
      }
    }
    throw InputError(path_, ":", opened, ": a quoted field is not closed");
  }

  const std::string& path_;
  const char separator_;
  const std::string text_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

// Saved by a spreadsheet in the code page of its country, most likely.
void RefuseOtherThanUtf8(const std::string& path, int64_t line, const std::vector<std::string>& fields) {
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t place = FirstNotUtf8(fields[i]);
    if (place == std::string::npos) continue;
    throw InputError(path, ":", line, ": field ", i + 1, " is not UTF-8: its byte ", place + 1, " is ",
                     static_cast<int>(static_cast<unsigned char>(fields[i][place])), "; save the file as UTF-8");
  }
}

}  // namespace

std::vector<Json> ReadCsv(const std::string& path, char separator) {
  CsvReader reader(path, separator);
  std::vector<Json> records;
  std::vector<std::string> names;
  while (!reader.AtEnd()) {
    const int64_t line = reader.line();
    const std::vector<std::string> fields = reader.ReadRecord();
    RefuseOtherThanUtf8(path, line, fields);
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (names.empty()) {
      names = fields;
      continue;
    }
    if (fields.size() != names.size()) {
      throw InputError(path, ":", line, ": has ", fields.size(), " fields; the first line names ", names.size());
    }
    Json record = Json::object();
    for (size_t i = 0; i < names.size(); ++i) record[names[i]] = fields[i];
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace trireme
