// The Trace Event format: one JSON object per line, so that a file of many spans is streamed.
#include "core/trace/chrome_trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"

namespace trireme {
namespace {

// Written to a temporary name and renamed: a viewer never sees a partial file.
class EventFile {
 public:
  explicit EventFile(const std::string& path) : path_(path), aside_(path + ".part") {
    file_ = std::fopen(aside_.c_str(), "wb");
    if (file_ == nullptr) Fail("cannot be created");
    Put("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  }
  ~EventFile() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(aside_.c_str());
  }
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void Event(const Json& event) {
    Put((first_ ? "\n" : ",\n") + JsonLine(event));
    first_ = false;
  }
  void Commit() {
    Put("\n]}\n");
    if (std::fclose(std::exchange(file_, nullptr)) != 0) Fail("cannot be closed");
    if (std::rename(aside_.c_str(), path_.c_str()) != 0) Fail("cannot be renamed into place");
  }

 private:
  void Put(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) Fail("cannot be written");
  }
  [[noreturn]] void Fail(const char* what) const { throw RuntimeError(path_, ": ", what, ": ", std::strerror(errno)); }

  std::string path_, aside_;
  FILE* file_ = nullptr;
  bool first_ = true;
};

Json Metadata(const char* what, int rank, size_t lane, const char* key, const Json& value) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", lane}, {"args", {{key, value}}}};
}

double Microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000; }

void WriteRank(const RankSpans& rank, int64_t start_ns, EventFile& file) {
  file.Event(Metadata("process_name", rank.rank, 0, "name", Concat("rank ", rank.rank)));
  file.Event(Metadata("process_sort_index", rank.rank, 0, "sort_index", rank.rank));
  std::map<std::string, size_t> lanes;
  for (const TraceSpan& span : rank.spans) {
    const auto [lane, is_new] = lanes.emplace(span.lane, lanes.size());
    const size_t number = lane->second;
    if (is_new) {
      file.Event(Metadata("thread_name", rank.rank, number, "name", span.lane));
      file.Event(Metadata("thread_sort_index", rank.rank, number, "sort_index", number));
    }
    Json args = Json::object();
    for (const auto& [key, value] : span.args) args[key] = value;
    file.Event({{"ph", "X"},
                {"name", span.name},
                {"pid", rank.rank},
                {"tid", number},
                {"ts", Microseconds(span.start_ns - start_ns)},
                {"dur", Microseconds(span.end_ns - span.start_ns)},
                {"args", std::move(args)}});
  }
}

}  // namespace

void WriteChromeTrace(const std::string& path, const std::vector<RankSpans>& ranks) {
  int64_t start_ns = std::numeric_limits<int64_t>::max();
  for (const RankSpans& rank : ranks) {
    for (const TraceSpan& span : rank.spans) start_ns = std::min(start_ns, span.start_ns);
  }
  EventFile file(path);
  for (const RankSpans& rank : ranks) WriteRank(rank, start_ns, file);
  file.Commit();
}

}  // namespace trireme
