// `trireme board`: a page over runs' output directories. Reads what runs write; needs neither a model nor a device.
#include "board/board.h"

#include <chrono>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/stop_signals.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "launch/listening.h"

namespace trireme {
namespace {

constexpr int64_t kBoardPort = 8001;

void RunBoard(const Arguments& arguments, Job& job) {
  if (job.world() > 1) throw InputError("trireme board runs alone; start it without mpirun");
  const std::string host = arguments.value("host", "127.0.0.1");
  const bool allow_start = arguments.has("allow-start");
  ApiKeys keys = ApiKeys::Read(arguments.value("api-key-file"));
  std::string key;  // made here; empty: those that were given count
  if (allow_start && keys.empty()) {
    RefuseWithoutKeys("--allow-start", "start programs here", host);
    key = ApiKeys::NewKey();
    keys = ApiKeys({key});
  }
  const Callers callers(std::move(keys), AllowedHosts(arguments, host), {});
  if (callers.anyone() && !IsLoopback(host)) {
    TRIREME_LOG(WARNING) << "anyone who reaches " << host << " may look at these runs; set keys with --api-key-file";
  }
  const uint16_t port = PortOf(arguments, kBoardPort);
  const StopSignals signals(/*speaks=*/false);
  Board board({.outputs = arguments.values("OUTPUT"), .allow_start = allow_start, .key_in_address = !key.empty()},
              callers);
  const HttpServer server(
      HttpAddress{.host = host, .port = port},
      HttpLimits{
          .body_bytes = 1 << 20, .connections = arguments.integer("max-connections", 256, 1), .queued_bytes = 1 << 20},
      [&board](const HttpRequest& request) { return board.Check(request); },
      [&board](HttpRequest request, std::shared_ptr<HttpReply> reply) {
        if (board.Handle(request, reply)) return;
        reply->Send(ResponseOf({.status = 404, .message = "this is the board; see /"}));
      });
  const BoardStop stop{board};
  TRIREME_LOG(INFO) << "shows " << Counted(board.runs(), "run") << " at http://" << host << ":" << server.port() << "/"
                    << (key.empty() ? "" : "?token=" + key);
  if (!key.empty()) TRIREME_LOG(INFO) << "whoever has this address can start programs as you: keep it to yourself";
  while (!StopRequested()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

std::vector<Option> BoardCommandOptions() {
  return {
      {.name = "host", .value_name = "IP", .help = "address to listen on; by default 127.0.0.1: this machine only"},
      {.name = "port", .value_name = "N", .help = "by default 8001; 0: any free one"},
      {.name = "api-key-file",
       .value_name = "FILE",
       .help = "keys to log in with, one per line; the environment's TRIREME_API_KEY is one, too; by default none"},
      {.name = "allowed-host",
       .value_name = "NAME",
       .help = "a name by which browsers may call this board; by default those of loopback on loopback, elsewhere any",
       .repeatable = true},
      {.name = "allow-start",
       .help = "lets the page start and stop runs. Without keys the address that is printed has a key of this start; "
               "on other addresses than loopback keys are required"},
      {.name = "max-connections", .value_name = "N", .help = "by default 256; more are refused with 503"}};
}

}  // namespace

Command BoardCommand() {
  return {.name = "board",
          .summary =
              "Shows runs in a browser: curves side by side and live, experts, timelines, configurations. Reads the\n"
              "files that runs write; they need not know of it.",
          .options = BoardCommandOptions(),
          .positionals = {{.name = "OUTPUT",
                           .help = "a run's output directory, or a directory that holds such directories",
                           .repeatable = true}},
          .run = RunBoard};
}

}  // namespace trireme
