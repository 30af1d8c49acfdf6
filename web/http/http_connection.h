// Connection: one client of the HTTP server, from its first byte to its last: reads a request, hands it over, writes
// the response, waits for the next one. Reading is in http_requests.cc, writing in http_responses.cc. All of it runs on
// the server's one thread. Included by the server's own files alone: Boost.Beast takes a minute to compile.
#pragma once

#include "web/http/http_stream.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <atomic>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "web/http/http.h"

namespace trireme {

class Connection;

// What all connections of a server share.
struct HttpShared {
  HttpLimits limits;
  std::unique_ptr<boost::asio::ssl::context> tls;  // nullptr: plain HTTP
  HttpCheck check;
  HttpHandler handler;
  int64_t connections = 0;
  std::map<std::string, int64_t> connections_of;  // by the client's address
  std::list<Connection*> idle;                    // without a request, those that wait longest first
  std::atomic<int64_t> answering = 0;             // requests whose response is not yet sent
  boost::asio::io_context context{1};             // last: what it still holds refers to the others
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, HttpShared& shared);
  ~Connection();

  const std::string& address() const { return address_; }
  void Start();
  void Refuse();  // one connection too many
  void Close();

  // Of the request with this number only: a reply that comes late must not reach the next one.
  void Respond(HttpResponse response);
  void RespondInPieces(HttpResponse response, int64_t bytes, std::function<std::string()> next);
  void StartEvents(std::map<std::string, std::string> headers);
  void Event(const std::string& data);
  void EndEvents();

  bool gone() const { return gone_; }
  int64_t number() const { return number_; }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using error_code = boost::system::error_code;

  // Reading.
  void AwaitRequest();
  void ReadHeader();
  void HeaderCame(error_code error);
  bool CheckHeader();  // false: it is refused
  void LimitBody(int64_t most_bytes);
  void ReadBody();
  void Malformed(error_code error);
  void RefuseRequest(int status, const std::string& message, const std::string& code = "");
  void RefuseRequest(const ApiError& error);
  HttpRequest Head() const;
  void Handle();
  void ReadAhead();

  // Writing.
  std::string ResponseHead(HttpResponse& response, int64_t bytes);
  void QueuePiece();
  void Queue(std::string data);
  void Write();
  void Done();
  void CloseGently();
  void Drain();

  void SetAnswering(bool answering);
  void SetIdle(bool idle);
  void Uncount();
  void Deadline(double seconds);

  HttpStream stream_;
  HttpShared& shared_;
  std::string address_;
  boost::asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest request_;  // as its headers were checked: what trailers say after the body changes nothing
  std::deque<std::string> queue_;
  std::function<std::string()> next_piece_;  // of a response in pieces
  std::optional<std::list<Connection*>::iterator> idle_;
  int64_t queued_ = 0, number_ = 0, drained_ = 0, most_body_ = 0;
  bool counted_ = true, first_ = true, keep_alive_ = false, head_only_ = false;
  bool answering_ = false, streaming_ = false, finished_ = false, writing_ = false, watching_ = false;
  std::atomic<bool> gone_ = false;
};

}  // namespace trireme
