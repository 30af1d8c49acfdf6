// HTTP as the server's other files see it: a request that arrived whole, and a reply that may be given from
// any thread, at once or event by event; plain or over TLS. Limits of size, time and number are kept here; what a
// path means is not known. The library behind it is seen by http_connection.h alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace trireme {

struct HttpRequest {
  std::string method;                          // "POST"
  std::string target;                          // as sent: "/v1/models/a%2Fb?x=1"
  std::map<std::string, std::string> headers;  // by lower-case name
  std::string body = {};
  bool secure = false;  // it came over TLS

  std::string path() const { return target.substr(0, target.find('?')); }
  std::string header(const std::string& name) const;  // empty: it is not there
};

// Of ASCII letters: header names, hosts.
std::string LowerCase(std::string text);

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::map<std::string, std::string> headers = {};
};

// Of one request. All calls return at once; after the client has left they do nothing.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  virtual void Send(HttpResponse response) = 0;
  // The same with a body of so many bytes that comes piece by piece, the next one when the last is on its way: next()
  // is called on the server's thread, returns nothing after the last piece, and cuts the client off where it throws.
  virtual void SendPieces(HttpResponse head, int64_t bytes, std::function<std::string()> next);
  // Server-sent events, one after another: each `data` becomes "data: …\n\n". A client that reads them too
  // slowly is cut off.
  virtual void StartEvents(std::map<std::string, std::string> headers) = 0;
  virtual void Event(std::string data) = 0;
  virtual void EndEvents() = 0;
  // Whether the client has left, or was cut off.
  virtual bool gone() const = 0;
};

struct HttpAddress {
  std::string host;
  uint16_t port = 0;  // 0: any free one
  // PEM files; both or none: plain HTTP.
  std::string tls_certificate = {}, tls_key = {};
};

struct HttpLimits {
  int64_t header_bytes = 16 * 1024;
  int64_t target_bytes = 8 * 1024;
  int64_t header_lines = 100;
  int64_t body_bytes = 32 * 1024 * 1024;
  double header_seconds = 10;  // for all headers, from the first byte on
  double body_seconds = 60;
  double idle_seconds = 75;   // between requests
  double write_seconds = 60;  // without any progress of a response
  // Where there are too many, one that has asked for nothing is closed, oldest first; if none is idle: 503.
  int64_t connections = 1024;
  int64_t connections_per_address = 768;  // no address has all of them
  int64_t queued_bytes = 64 * 1024;       // of events that the client has not read
};

// Both are called on the server's thread and must not wait. The check sees a request without its body, before that is
// read; it refuses it with an ApiError, or says how many bytes the body may have at most (0: what the limits say).
using HttpCheck = std::function<int64_t(const HttpRequest&)>;
using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<HttpReply>)>;

class HttpServer {
 public:
  // Listens at once. An address or a certificate that cannot be used is an input error.
  HttpServer(const HttpAddress& address, const HttpLimits& limits, HttpCheck check, HttpHandler handler);
  ~HttpServer();  // gives answers on their way two seconds, then closes all connections

  uint16_t port() const;
  // No new connections; those that are there stay.
  void StopAccepting();

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

// An error as OpenAI's clients read it.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};  // the field; empty: none
  std::string code = {};   // "model_not_found"; empty: none
  std::string type = "invalid_request_error";
  std::string allow = {};  // the methods that the path takes, of a 405: "GET, HEAD"
};
HttpResponse ResponseOf(const ApiError& error);

}  // namespace trireme
