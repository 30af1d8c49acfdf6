#include "launch/serve_listen.h"

#include "core/base/log.h"
#include "core/base/text.h"
#include "launch/listening.h"
#include "launch/serve_training.h"

namespace trireme {
namespace {

// One address has three quarters of them, unless it is told otherwise.
HttpLimits LimitsOfConnections(const Arguments& arguments) {
  const int64_t all = arguments.integer("max-connections", HttpLimits().connections, 1);
  return {.body_bytes = BodyLimit(arguments),
          .connections = all,
          .connections_per_address = arguments.integer("max-connections-per-address", all - all / 4, 1)};
}

}  // namespace

std::unique_ptr<HttpServer> Listen(const Arguments& arguments, const std::string& host, Board& board,
                                   const Callers& callers, Gate& gate) {
  return std::make_unique<HttpServer>(
      HttpAddress{.host = host,
                  .port = PortOf(arguments, 8000),
                  .tls_certificate = arguments.value("tls-certificate"),
                  .tls_key = arguments.value("tls-key")},
      LimitsOfConnections(arguments),
      [&board, &callers, trains = arguments.has("train")](const HttpRequest& request) {
        const auto check = [&board](const HttpRequest& with_key) { return board.Check(with_key); };
        if (trains && ServeTraining::Takes(request)) return ServeTraining::Check(request, callers, check);
        const int64_t most_body = check(request);
        return most_body > 0 ? most_body : HttpLimits().body_bytes;
      },
      [&board, &gate](HttpRequest request, std::shared_ptr<HttpReply> reply) {
        if (!board.Handle(request, reply)) gate.Handle(std::move(request), std::move(reply));
      });
}

std::string UrlOf(const Arguments& arguments, const std::string& host, const HttpServer& server) {
  return Concat(arguments.has("tls-key") ? "https" : "http", "://", host, ":", server.port(), "/v1");
}

void WarnOfOpenDoors(const Arguments& arguments, const std::string& host) {
  if (IsLoopback(host) && !arguments.has("train")) return;
  const std::string who = IsLoopback(host) ? "every user of this machine" : "anyone who reaches " + host;
  TRIREME_LOG(WARNING) << who << " may " << (arguments.has("train") ? "train on" : "use")
                       << " this server; set keys with --api-key-file";
}

std::vector<Option> ListenOptions() {
  return {
      {.name = "served-model-name",
       .value_name = "NAME",
       .help = "the model's name in requests; by default its folder's"},
      {.name = "host", .value_name = "IP", .help = "address to listen on; by default 127.0.0.1: this machine only"},
      {.name = "port", .value_name = "N", .help = "by default 8000; 0: any free one"},
      {.name = "tls-certificate",
       .value_name = "FILE",
       .help = "PEM file of the server's certificate and its chain: HTTPS, with --tls-key; by default plain HTTP"},
      {.name = "tls-key", .value_name = "FILE", .help = "PEM file of the certificate's private key"},
      {.name = "api-key-file",
       .value_name = "FILE",
       .help = "keys that clients must present, one per line; the environment's TRIREME_API_KEY is one, too; "
               "by default none"},
      {.name = "allowed-host",
       .value_name = "NAME",
       .help = "a name by which clients may call this server; by default those of loopback on loopback, "
               "elsewhere any",
       .repeatable = true},
      {.name = "board",
       .value_name = "OUTPUT",
       .help = "a run's output directory, or one that holds such directories, to show on the page at / beside the chat",
       .repeatable = true},
      {.name = "max-waiting",
       .value_name = "N",
       .help = "requests that may wait; more are refused with 429; by default 256"},
      {.name = "max-connections",
       .value_name = "N",
       .help = "by default 1024; for one more the one that is idle longest is closed, or it is refused with 503"},
      {.name = "max-connections-per-address",
       .value_name = "N",
       .help = "of one client address; by default three quarters of them"},
      {.name = "drain-seconds",
       .value_name = "S",
       .help = "after SIGTERM, time for running answers to end; by default 30"}};
}

}  // namespace trireme
