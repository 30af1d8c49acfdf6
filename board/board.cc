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

constexpr int64_t kMostBodyBytes = 1 << 20;
constexpr RouteOptions kJsonBody{.json = true, .body_bytes = kMostBodyBytes};

bool IsPagePath(const std::string& path) {
  return path == "/" || path == "/favicon.ico" || path.starts_with("/page/") || path.starts_with("/board/");
}

// Whatever changes something must come from this very page: the same scheme-less origin, port included.
void WantOwnPage(const HttpRequest& request) {
  const std::string origin = request.header("origin");
  if (!origin.empty() && origin.substr(origin.find("://") + 3) != request.header("host")) {
    throw ApiError{.status = 403, .message = "only the board's own page may do this", .code = "origin_not_allowed"};
  }
}

HttpResponse JsonResponse(const Json& json) { return {.body = JsonLine(json)}; }

}  // namespace

Board::Board(const BoardOptions& options, const Callers& callers)
    : options_(options),
      access_(callers),
      folders_(options.outputs),
      routes_(folders_),
      starter_(folders_.parents()),
      first_runs_(static_cast<int64_t>(folders_.runs().size())) {
  AddPageRoutes();
  AddRunRoutes();
  AddStartRoutes();
  thread_ = std::thread([this] { Loop(); });
}

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

int64_t Board::Check(const HttpRequest& request) const {
  access_.Check(request);
  return IsPagePath(request.path()) ? kMostBodyBytes : 0;
}

bool Board::Handle(HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  if (!IsPagePath(request.path())) {
    request = access_.WithKey(std::move(request));
    return false;
  }
  try {
    if (request.method != "GET" && request.method != "HEAD") WantOwnPage(request);
    Route(std::move(request), reply);
  } catch (const ApiError& error) {
    reply->Send(ResponseOf(error));
  }
  return true;
}

void Board::Route(HttpRequest request, const std::shared_ptr<HttpReply>& reply) {
  auto [handler, values] = table_.Find(request);
  BoardCall call{.request = std::move(request), .values = std::move(values), .reply = reply};
  if (!handler.reads_files) return Serve(handler.respond, call);
  if (Enqueue([this, &respond = handler.respond, call = std::move(call)] { Serve(respond, call); })) return;
  throw ApiError{.status = 503, .message = "too many requests wait", .code = "overloaded", .type = "server_error"};
}

void Board::Serve(const BoardRespond& respond, const BoardCall& call) {
  std::optional<HttpResponse> made;
  try {
    made = respond(call);
  } catch (const ApiError& error) {
    if (error.code == kStillReading && deferred_.size() < kMostTasks) {
      deferred_.push_back([this, &respond, call] { Serve(respond, call); });
      return;
    }
    made = ResponseOf(error);
  } catch (const std::exception& error) {
    TRIREME_LOG(ERROR) << "the board failed: " << error.what();
    made = ResponseOf({.status = 500, .message = "the board failed", .type = "server_error"});
  }
  if (made) call.reply->Send(*std::move(made));
}

// The first visit of the address that was printed: its key becomes a cookie, and leaves the address.
HttpResponse Board::Page(const BoardCall& call) {
  const std::optional<std::string> token = QueryValue(call.request, "token");
  if (token && options_.key_in_address) return access_.Enter(call.request, *token);
  return PageResponse(*FindPageFile("/"), call.request);
}

void Board::AddPageRoutes() {
  const auto at_once = [this](const char* method, const char* path, BoardRespond respond,
                              const RouteOptions& options = {}) {
    table_.Add(method, path, {.respond = std::move(respond), .reads_files = false}, options);
  };
  at_once("GET", "/", [this](const BoardCall& call) { return Page(call); });
  at_once("GET", "/page/{file}", [](const BoardCall& call) {
    const EmbeddedFile* file = FindPageFile(call.request.path());
    if (file == nullptr) throw ApiError{.status = 404, .message = "the page has no such file"};
    return PageResponse(*file, call.request);
  });
  at_once("GET", "/favicon.ico", [](const BoardCall&) { return HttpResponse{.status = 204}; });
  at_once("POST", "/board/login", [this](const BoardCall& call) { return access_.Login(call.request); }, kJsonBody);
  at_once("POST", "/board/logout", [this](const BoardCall& call) { return access_.Logout(call.request); }, kJsonBody);
  at_once("GET", "/board/about", [this](const BoardCall&) {
    return JsonResponse({{"version", TRIREME_VERSION},
                         {"runs", !options_.outputs.empty()},
                         {"chat", options_.has_chat},
                         {"images", options_.has_images},
                         {"remote", options_.has_remote},
                         {"start", options_.allow_start}});
  });
}

void Board::AddRunRoutes() {
  routes_.AddTo(table_);
  table_.Add("GET", "/board/events", {[this](const BoardCall& call) -> std::optional<HttpResponse> {
               const std::string resumed = call.request.header("last-event-id");
               feed_.Follow(folders_, resumed.empty() ? QueryValue(call.request, "at").value_or("") : resumed,
                            call.reply);
               return std::nullopt;
             }},
             {.head = false});
}

// Where runs cannot be started these paths say so.
void Board::AddStartRoutes() {
  const auto add = [this](const char* method, const char* path, std::function<Json(const Json&)> respond) {
    if (!options_.allow_start) {
      table_.Add("*", path, {[](const BoardCall&) -> HttpResponse {
                   throw ApiError{.status = 403,
                                  .message = "runs cannot be started here; start the board with --allow-start"};
                 }});
      return;
    }
    table_.Add(method, path, {[respond = std::move(respond)](const BoardCall& call) {
                 return JsonResponse(respond(TryParseJson(call.request.body)));
               }},
               method == std::string("POST") ? kJsonBody : RouteOptions());
  };
  add("GET", "/board/schema", [](const Json&) { return SchemaForm(); });
  add("GET", "/board/started", [this](const Json&) { return starter_.Started(); });
  add("POST", "/board/start/preview", [this](const Json& form) { return starter_.Preview(form); });
  add("POST", "/board/start", [this](const Json& form) { return starter_.Start(form); });
  add("POST", "/board/stop", [this](const Json& form) { return starter_.Stop(form); });
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
