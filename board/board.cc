#include "board/board.h"

#include <chrono>
#include <utility>

#include "board/page_files.h"
#include "board/schema_form.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace trireme {
namespace {

using BoardClock = std::chrono::steady_clock;
constexpr auto kLookAgain = std::chrono::milliseconds(250);  // at logs
constexpr auto kScanAgain = std::chrono::seconds(1);         // for runs and their states
constexpr size_t kMostTasks = 256;

void Want(const HttpRequest& request, const char* method) {
  const bool reads = std::string(method) == "GET" && request.method == "HEAD";
  if (request.method != method && !reads) {
    throw ApiError{.status = 405, .message = request.path().substr(0, 100) + " takes " + method};
  }
}

// Whatever changes something must come from this very page: the same scheme-less origin, port included.
void WantOwnPage(const HttpRequest& request) {
  Want(request, "POST");
  if (!LowerCase(request.header("content-type")).starts_with("application/json")) {
    throw ApiError{.status = 415, .message = "wanted a body of Content-Type application/json"};
  }
  const std::string origin = request.header("origin");
  if (!origin.empty() && origin.substr(origin.find("://") + 3) != request.header("host")) {
    throw ApiError{.status = 403, .message = "only the board's own page may do this", .code = "origin_not_allowed"};
  }
}

}  // namespace

Board::Board(const BoardOptions& options, const Callers& callers)
    : options_(options),
      access_(callers),
      folders_(options.outputs),
      routes_(folders_),
      starter_(folders_.parents()),
      first_runs_(static_cast<int64_t>(folders_.runs().size())),
      thread_([this] { Loop(); }) {}

Board::~Board() { Stop(); }

void Board::Stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  tasks_.clear();
  deferred_.clear();
  feed_.End();
}

bool Board::Handle(HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  const std::string path = request.path();
  bool later = false;
  HttpAnswer answer;
  try {
    const EmbeddedFile* file = FindPageFile(path);
    if (file == nullptr && !path.starts_with("/board/") && path != "/favicon.ico") {
      request = access_.WithKey(std::move(request));
      return false;
    }
    if (file != nullptr) {
      Want(request, "GET");
      answer = PageAnswer(*file, request);
    } else {
      answer = AnswerAtOnce(request, later);
    }
  } catch (const ApiError& error) {
    answer = AnswerOf(error);
  }
  if (!later) {
    reply->Send(std::move(answer));
    return true;
  }
  if (!Enqueue([this, request, reply] { Serve(request, reply); })) {
    reply->Send(
        AnswerOf({.status = 503, .message = "too many requests wait", .code = "overloaded", .type = "server_error"}));
  }
  return true;
}

void Board::Serve(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  HttpAnswer answer;
  bool streams = false;
  try {
    answer = AnswerLater(request, reply, streams);
  } catch (const ApiError& error) {
    if (error.code == kStillReading && deferred_.size() < kMostTasks) {
      deferred_.push_back([this, request, reply] { Serve(request, reply); });
      return;
    }
    answer = AnswerOf(error);
  } catch (const std::exception& error) {
    TRIREME_LOG(ERROR) << "the board failed: " << error.what();
    answer = AnswerOf({.status = 500, .message = "the board failed", .type = "server_error"});
  }
  if (!streams) reply->Send(std::move(answer));
}

HttpAnswer Board::AnswerAtOnce(const HttpRequest& request, bool& later) {
  const std::string path = request.path();
  if (path == "/favicon.ico") return {.status = 204};
  if (path == "/board/login") return WantOwnPage(request), access_.Login(request);
  if (path == "/board/logout") return WantOwnPage(request), access_.Logout(request);
  if (path == "/board/about") {
    Want(request, "GET");
    return {.body = JsonLine({{"version", TRIREME_VERSION},
                              {"runs", !options_.outputs.empty()},
                              {"chat", options_.has_chat},
                              {"remote", options_.has_remote},
                              {"start", options_.allow_start}})};
  }
  if (path == "/board/schema" || path.starts_with("/board/start")) {
    if (!options_.allow_start) {
      throw ApiError{.status = 403, .message = "runs cannot be started here; start the board with --allow-start"};
    }
    path == "/board/schema" || path == "/board/started" ? Want(request, "GET") : WantOwnPage(request);
  } else {
    Want(request, "GET");
    if (path == "/board/events" && request.method != "GET")
      throw ApiError{.status = 405, .message = path + " takes GET"};
  }
  later = true;
  return {};
}

HttpAnswer Board::AnswerLater(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply, bool& streams) {
  const std::string path = request.path();
  if (path == "/board/events") {
    const std::string resumed = request.header("last-event-id");
    feed_.Follow(folders_, resumed.empty() ? QueryValue(request, "at") : resumed, reply);
    streams = true;
    return {};
  }
  if (path == "/board/schema") return {.body = JsonLine(SchemaForm())};
  if (path == "/board/started") return {.body = JsonLine(starter_.Started())};
  if (path == "/board/start/preview") return {.body = JsonLine(starter_.Preview(TryParseJson(request.body)))};
  if (path == "/board/start") return {.body = JsonLine(starter_.Start(TryParseJson(request.body)))};
  if (path == "/board/runs" || path.starts_with("/board/runs/")) return routes_.Answer(request);
  throw ApiError{.status = 404, .message = "no path " + path.substr(0, 100)};
}

bool Board::Enqueue(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (ends_ || tasks_.size() >= kMostTasks) return false;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_all();
  return true;
}

bool Board::RunTasks() {
  std::deque<std::function<void()>> tasks;
  {
    std::unique_lock lock(mutex_);
    if (!busy_) wake_.wait_for(lock, kLookAgain, [this] { return ends_ || !tasks_.empty(); });
    if (ends_) return false;
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
  return true;
}

bool Board::PollRuns() {
  bool changed = false, more = false;
  for (const auto& run : folders_.runs()) {
    changed = run->log.Poll() || changed;
    more = more || !run->log.caught_up();
  }
  if (changed || !feed_.empty()) feed_.Push(folders_);
  return more;
}

void Board::Loop() {
  BoardClock::time_point scanned = {}, polled = {};
  while (RunTasks()) {
    if (!busy_ && BoardClock::now() - polled < kLookAgain) continue;
    try {
      busy_ = PollRuns();
      polled = BoardClock::now();
      for (const auto& task : std::exchange(deferred_, {})) task();
      if (BoardClock::now() - scanned < kScanAgain) continue;
      scanned = BoardClock::now();
      bool news = folders_.Scan();
      for (const auto& run : folders_.runs()) {
        const RunState state = StateOf(run->directory);
        news = news || state != run->state;
        run->state = state;
      }
      if (news) feed_.SayRunsChanged();
    } catch (const std::exception& error) {  // a directory that vanished while it was read: the next look shows it
      busy_ = false;
      TRIREME_LOG(WARNING) << "the board cannot read: " << error.what();
    }
  }
}

}  // namespace trireme
