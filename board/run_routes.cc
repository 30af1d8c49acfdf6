#include "board/run_routes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <vector>

#include "board/run_config.h"
#include "core/base/error.h"

namespace trireme {
namespace {

constexpr int64_t kMostTraceBytes = int64_t{64} << 20;
constexpr int64_t kMostConfigBytes = int64_t{1} << 20;

ApiError NotThere(const std::string& what) { return {.status = 404, .message = "this run has no " + what}; }

// The newest value of a column, skipping the lines that have none.
Json NewestValue(const Columns& columns, const std::string& name) {
  for (int64_t row = columns.rows() - 1; row >= 0 && row >= columns.rows() - 1000; --row) {
    const double value = columns.Value(name, row);
    if (!std::isnan(value)) return value;
  }
  return nullptr;
}

Json Summary(const BoardRun& run) {
  const Columns& columns = run.log.columns();
  Json summary = {{"id", run.id},
                  {"directory", run.directory.string()},
                  {"started", StartedAt(run.directory)},
                  {"state", NameOf(run.state)},
                  {"reading", !run.log.caught_up()},
                  {"rows", columns.rows()},
                  {"position", ToText(run.log.position())}};
  for (const char* name : {"step", "loss", "reward", "eval_loss", "epoch", "elapsed_seconds", "remaining_seconds"}) {
    summary[name] = NewestValue(columns, name);
  }
  summary["configuration"] = HasRunFile(run.directory, "run.yaml");
  summary["trace"] = HasRunFile(run.directory, "trace.json");
  summary["rollouts"] = HasRunFile(run.directory, "rollouts.jsonl");
  return summary;
}

void AppendLittleEndian(double value, std::string& bytes) {
  auto bits = std::bit_cast<uint64_t>(value);
  for (int i = 0; i < 8; ++i, bits >>= 8) bytes += static_cast<char>(bits & 0xff);
}

// A line of JSON, padded to whole doubles, then the columns one after another as little-endian doubles: a browser uses
// them as they are, where a hundred thousand steps as text would take it seconds.
HttpResponse ColumnsResponse(const BoardRun& run, const HttpRequest& /*request*/) {
  if (!run.log.caught_up()) {
    throw ApiError{
        .status = 503, .message = "the log is still being read", .code = kStillReading, .type = "server_error"};
  }
  const Columns& columns = run.log.columns();
  std::string body = JsonLine({{"run", run.id},
                               {"rows", columns.rows()},
                               {"position", ToText(run.log.position())},
                               {"names", columns.names()}});
  body.append(7 - body.size() % 8, ' ');
  body += '\n';
  const size_t count = columns.names().size();
  body.reserve(body.size() + count * static_cast<size_t>(columns.rows()) * 8);
  for (size_t i = 0; i < count; ++i) {
    for (const double value : columns.values(i)) AppendLittleEndian(value, body);
  }
  return {.type = "application/octet-stream", .body = std::move(body)};
}

HttpResponse LineResponse(const BoardRun& run, const HttpRequest& request) {
  std::string line = run.log.Line(QueryNumber(request, "row").value_or(-1));
  if (line.empty()) throw NotThere("such row in its log");
  return {.body = std::move(line)};
}

HttpResponse ConfigurationResponse(const BoardRun& run, const HttpRequest& /*request*/) {
  const OpenedFile file = OpenRunFile(run.directory, "run.yaml");
  if (!file.is_open() || file.bytes() > kMostConfigBytes) throw NotThere("run.yaml");
  const std::string yaml = file.Read(0, kMostConfigBytes);
  try {
    return {.body = JsonLine({{"run", run.id}, {"keys", ConfigKeys(yaml, "run.yaml")}, {"yaml", yaml}})};
  } catch (const Error& error) {
    return {.body = JsonLine({{"run", run.id}, {"keys", Json::array()}, {"yaml", yaml}, {"problem", error.what()}})};
  }
}

HttpResponse TraceResponse(const BoardRun& run, const HttpRequest& /*request*/) {
  const OpenedFile file = OpenRunFile(run.directory, "trace.json");
  if (!file.is_open()) throw NotThere("trace.json; start it with log.trace: N to get one");
  if (file.bytes() > kMostTraceBytes) {
    throw ApiError{.status = 413,
                   .message = Concat("trace.json has ", file.bytes() >> 20, " MiB, more than the ",
                                     kMostTraceBytes >> 20, " that the page draws; open it in Perfetto")};
  }
  return {.body = file.Read(0, kMostTraceBytes)};
}

// {"lines": […], "before": OFFSET}: the newest, or those before an offset that an earlier response gave; null: that is
// all.
HttpResponse RolloutsResponse(const BoardRun& run, const HttpRequest& request) {
  const OpenedFile file = OpenRunFile(run.directory, "rollouts.jsonl");
  if (!file.is_open()) throw NotThere("rollouts.jsonl");
  const FileTail tail = ReadTail(file, QueryNumber(request, "before").value_or(-1), 100, int64_t{4} << 20);
  Json lines = Json::array();
  for (size_t begin = 0, end; (end = tail.lines.find('\n', begin)) != std::string::npos; begin = end + 1) {
    Json line = TryParseJson(std::string_view(tail.lines).substr(begin, end - begin));
    if (line.is_object()) lines.push_back(std::move(line));
  }
  return {.body = JsonLine({{"lines", lines}, {"before", tail.begin > 0 ? Json(tail.begin) : Json(nullptr)}})};
}

}  // namespace

// By the start of the latest one first: that is what someone who opens the page looks for.
HttpResponse RunRoutes::List() const {
  std::vector<std::shared_ptr<BoardRun>> runs = runs_.runs();
  std::ranges::stable_sort(runs, std::greater<>(), [](const auto& run) { return StartedAt(run->directory); });
  Json list = Json::array();
  for (const auto& run : runs) list.push_back(Summary(*run));
  return {.body = JsonLine({{"runs", std::move(list)}})};
}

std::shared_ptr<BoardRun> RunRoutes::RunOf(const BoardCall& call) const {
  auto run = runs_.Find(call.values.at("run"));
  if (run == nullptr) throw ApiError{.status = 404, .message = "unknown run; see /board/runs"};
  return run;
}

void RunRoutes::AddTo(BoardTable& table) const {
  const auto add = [&](const std::string& what, HttpResponse (*respond)(const BoardRun&, const HttpRequest&)) {
    table.Add("GET", "/board/runs/{run}/" + what,
              {[this, respond](const BoardCall& call) { return respond(*RunOf(call), call.request); }});
  };
  table.Add("GET", "/board/runs", {[this](const BoardCall&) { return List(); }});
  add("columns", ColumnsResponse);
  add("line", LineResponse);
  add("configuration", ConfigurationResponse);
  add("trace", TraceResponse);
  add("rollouts", RolloutsResponse);
}

}  // namespace trireme
