// Boost.Beast behind http.h. One thread runs everything here; replies from other threads are posted to it.
// The only file that includes the library, which takes a minute to compile.
#include "web/http/http_stream.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <sstream>
#include <thread>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "web/http/http.h"

namespace trireme {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

std::chrono::milliseconds Millis(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

std::string HeadOf(int status, const std::map<std::string, std::string>& headers) {
  std::ostringstream text;
  text << "HTTP/1.1 " << status << " " << http::obsolete_reason(static_cast<http::status>(status)) << "\r\n";
  for (const auto& [name, value] : headers) text << name << ": " << value << "\r\n";
  text << "\r\n";
  return text.str();
}

// "5\r\nhello\r\n"
std::string ChunkOf(const std::string& data) {
  std::ostringstream text;
  text << std::hex << data.size() << "\r\n" << data << "\r\n";
  return text.str();
}

struct Shared {  // by all connections
  HttpLimits limits;
  std::unique_ptr<asio::ssl::context> tls;  // nullptr: plain HTTP
  HttpCheck check;
  HttpHandler handler;
  int64_t connections = 0;
  std::map<std::string, int64_t> connections_of;  // by the client's address
  std::atomic<int64_t> answering = 0;             // requests whose answer is not yet sent
  asio::io_context context{1};                    // last: what it still holds refers to the others
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Shared& shared)
      : stream_(std::move(socket), shared.tls.get()), shared_(shared), timer_(shared.context) {
    error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    const auto peer = stream_.socket().remote_endpoint(ignored);
    address_ = ignored ? "" : peer.address().to_string();
    ++shared_.connections;
    ++shared_.connections_of[address_];
  }
  ~Connection() {
    --shared_.connections;
    if (--shared_.connections_of[address_] == 0) shared_.connections_of.erase(address_);
    SetAnswering(false);
  }

  const std::string& address() const { return address_; }
  void Start() {
    if (!stream_.tls()) return AwaitRequest();
    Deadline(shared_.limits.header_seconds);
    stream_.async_handshake([self = shared_from_this()](error_code error) {
      if (!self->gone_) error ? self->Close() : self->AwaitRequest();
    });
  }
  void Refuse() {                       // one connection too many
    if (stream_.tls()) return Close();  // a handshake is what it must not get
    keep_alive_ = false;
    SetAnswering(true);
    Answer(AnswerOf({.status = 503, .message = "too many connections", .code = "overloaded", .type = "server_error"}));
  }
  void Close() {
    gone_ = true;
    SetAnswering(false);
    next_piece_ = nullptr;
    timer_.cancel();
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.socket().close(ignored);
  }

  // Of the request with this number only: a reply that comes late must not reach the next one.
  void Answer(HttpAnswer answer) {
    if (gone_ || !answering_ || streaming_) return;
    const auto bytes = std::ssize(answer.body);
    Queue(AnswerHead(answer, bytes) + (head_only_ ? "" : std::move(answer.body)));
    finished_ = true;
  }
  void AnswerPieces(HttpAnswer answer, int64_t bytes, std::function<std::string()> next) {
    if (gone_ || !answering_ || streaming_) return;
    streaming_ = true;
    next_piece_ = std::move(next);
    if (head_only_ || bytes == 0) {
      next_piece_ = nullptr;
      finished_ = true;
    }
    Queue(AnswerHead(answer, bytes));
  }
  void StartEvents(std::map<std::string, std::string> headers) {
    if (gone_ || !answering_ || streaming_) return;
    streaming_ = true;
    headers["Content-Type"] = "text/event-stream; charset=utf-8";
    headers["Cache-Control"] = "no-cache";
    headers["X-Accel-Buffering"] = "no";
    headers["X-Content-Type-Options"] = "nosniff";
    headers["Transfer-Encoding"] = "chunked";
    keep_alive_ = keep_alive_ && buffer_.size() == 0;
    headers["Connection"] = keep_alive_ ? "keep-alive" : "close";
    Queue(HeadOf(200, headers));
  }
  void Event(const std::string& data) {
    if (gone_ || !streaming_ || finished_) return;
    if (queued_ > shared_.limits.queued_bytes) return Close();  // reads too slowly
    Queue(ChunkOf("data: " + data + "\n\n"));
  }
  void EndEvents() {
    if (gone_ || !streaming_ || finished_) return;
    Queue("0\r\n\r\n");
    finished_ = true;
  }

  bool gone() const { return gone_; }
  int64_t number() const { return number_; }

 private:
  using Parser = http::request_parser<http::string_body>;

  std::string AnswerHead(HttpAnswer& answer, int64_t bytes) {
    answer.headers["Content-Type"] = answer.type;
    answer.headers["Content-Length"] = std::to_string(bytes);
    answer.headers["X-Content-Type-Options"] = "nosniff";
    keep_alive_ = keep_alive_ && buffer_.size() == 0;
    answer.headers["Connection"] = keep_alive_ ? "keep-alive" : "close";
    return HeadOf(answer.status, answer.headers);
  }

  // Of an answer in pieces the next one; a file that cannot be read any more leaves it short, which clients notice.
  void QueuePiece() {
    try {
      std::string piece = next_piece_();
      if (!piece.empty()) return Queue(std::move(piece));
    } catch (const std::exception& error) {
      TRIREME_LOG(ERROR) << "an answer was cut off: " << error.what();
      return Close();
    }
    next_piece_ = nullptr;
    finished_ = true;
    Write();
  }

  void AwaitRequest() {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(shared_.limits.header_bytes));
    parser_->body_limit(static_cast<uint64_t>(shared_.limits.body_bytes));
    SetAnswering(false);
    streaming_ = finished_ = false;
    if (buffer_.size() > 0) return watching_ ? Close() : ReadHeader();
    Deadline(first_ ? shared_.limits.header_seconds : shared_.limits.idle_seconds);
    first_ = false;
    if (!watching_) ReadAhead();
  }

  void ReadHeader() {
    Deadline(shared_.limits.header_seconds);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](error_code error, size_t) { self->HeaderCame(error); });
  }

  void HeaderCame(error_code error) {
    if (gone_) return;
    if (error) return Malformed(error);
    const auto& head = parser_->get();
    int64_t lines = 0;
    for ([[maybe_unused]] const auto& field : head) ++lines;
    if (lines > shared_.limits.header_lines) return RefuseRequest(431, "too many header lines");
    if (static_cast<int64_t>(head.target().size()) > shared_.limits.target_bytes)
      return RefuseRequest(414, "the path is too long");
    try {
      shared_.check(Head());
    } catch (const ApiError& error) {
      return RefuseRequest(error);
    }
    Deadline(shared_.limits.body_seconds);
    if (beast::iequals(head[http::field::expect], "100-continue")) {
      auto text = std::make_shared<std::string>("HTTP/1.1 100 Continue\r\n\r\n");
      asio::async_write(stream_, asio::buffer(*text), [self = shared_from_this(), text](error_code failed, size_t) {
        failed ? self->Close() : self->ReadBody();
      });
      return;
    }
    ReadBody();
  }

  void ReadBody() {
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
      if (self->gone_) return;
      if (error) return self->Malformed(error);
      self->Handle();
    });
  }

  void Malformed(error_code error) {
    if (error == http::error::body_limit) {
      return RefuseRequest(413, Concat("the body is larger than ", shared_.limits.body_bytes, " bytes"),
                           "request_too_large");
    }
    if (error == http::error::header_limit) return RefuseRequest(431, "the headers are too large");
    if (error.category() == http::make_error_code(http::error::end_of_stream).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message) {
      return RefuseRequest(400, "not an HTTP request");
    }
    Close();
  }

  // What follows such a request cannot be read any more.
  void RefuseRequest(int status, const std::string& message, const std::string& code = "") {
    RefuseRequest({.status = status, .message = message, .code = code});
  }
  void RefuseRequest(const ApiError& error) {
    keep_alive_ = false;
    SetAnswering(true);
    head_only_ = false;
    Answer(AnswerOf(error));
  }

  // The request without its body.
  HttpRequest Head() const {
    const auto& head = parser_->get();
    HttpRequest request{.method = std::string(head.method_string()),
                        .target = std::string(head.target()),
                        .headers = {},
                        .secure = stream_.tls()};
    for (const auto& field : head) {
      request.headers[LowerCase(std::string(field.name_string()))] = std::string(field.value());
    }
    return request;
  }

  void Handle();

  // One read that serves two ends: it begins the next request, and while an answer is made it notices a client that
  // leaves. What comes as early as that cannot be parsed beside such a read: the connection ends after the answer.
  void ReadAhead() {
    watching_ = true;
    stream_.async_read_some(buffer_.prepare(512), [self = shared_from_this()](error_code error, size_t count) {
      self->watching_ = false;
      if (self->gone_) return;
      if (error) return self->Close();
      self->buffer_.commit(count);
      if (!self->answering_) return self->ReadHeader();
      if (self->finished_) return;  // the next request overtook the end of the writing
      if (static_cast<int64_t>(self->buffer_.size()) > self->shared_.limits.header_bytes) return self->Close();
      self->ReadAhead();
    });
  }

  void Queue(std::string data) {
    queued_ += static_cast<int64_t>(data.size());
    queue_.push_back(std::move(data));
    if (!writing_) Write();
  }

  void Write() {
    if (queue_.empty()) {
      if (next_piece_) return QueuePiece();
      timer_.cancel();
      if (finished_) Done();
      return;
    }
    writing_ = true;
    Deadline(shared_.limits.write_seconds);
    asio::async_write(stream_, asio::buffer(queue_.front()), [self = shared_from_this()](error_code error, size_t) {
      self->writing_ = false;
      if (self->gone_) return;
      if (error) return self->Close();
      self->queued_ -= static_cast<int64_t>(self->queue_.front().size());
      self->queue_.pop_front();
      self->Write();
    });
  }

  void SetAnswering(bool answering) {
    shared_.answering += static_cast<int64_t>(answering) - static_cast<int64_t>(answering_);
    answering_ = answering;
  }

  void Done() {
    SetAnswering(false);
    keep_alive_ ? AwaitRequest() : CloseGently();
  }

  // A peer that is still sending would otherwise lose the answer to a reset.
  void CloseGently() {
    error_code ignored;
    if (watching_) return Close();  // nothing that was sent is unread
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    Deadline(1);
    Drain();
  }
  void Drain() {  // what comes means nothing any more: not even TLS reads it
    buffer_.clear();
    stream_.socket().async_read_some(buffer_.prepare(4096),
                                     [self = shared_from_this()](error_code error, size_t count) {
                                       if (self->gone_) return;
                                       self->drained_ += static_cast<int64_t>(count);
                                       if (error || self->drained_ > (8 << 20)) return self->Close();
                                       self->Drain();
                                     });
  }

  void Deadline(double seconds) {
    timer_.expires_after(Millis(seconds));
    timer_.async_wait([weak = weak_from_this()](error_code error) {
      const auto self = weak.lock();
      // A deadline that was moved while this call was on its way is not over.
      if (self && !error && self->timer_.expiry() <= asio::steady_timer::clock_type::now()) self->Close();
    });
  }

  HttpStream stream_;
  Shared& shared_;
  std::string address_;
  asio::steady_timer timer_;
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::deque<std::string> queue_;
  std::function<std::string()> next_piece_;  // of an answer in pieces
  int64_t queued_ = 0, number_ = 0, drained_ = 0;
  bool first_ = true, keep_alive_ = false, head_only_ = false;
  bool answering_ = false, streaming_ = false, finished_ = false, writing_ = false, watching_ = false;
  std::atomic<bool> gone_ = false;
};

// A request's number on its connection keeps late replies from the next one.
class ConnectionReply : public HttpReply {
 public:
  ConnectionReply(std::shared_ptr<Connection> connection, Shared& shared)
      : connection_(std::move(connection)), number_(connection_->number()), shared_(shared) {}
  ~ConnectionReply() override {
    if (!ended_) Send(AnswerOf({.status = 500, .message = "no answer was made", .type = "server_error"}));
    // The last reference must not end on this thread: connections belong to the server's.
    asio::post(shared_.context, [connection = std::move(connection_)] {});
  }
  void Send(HttpAnswer answer) override {
    ended_ = true;
    Post([answer = std::move(answer)](Connection& connection) mutable { connection.Answer(std::move(answer)); });
  }
  void SendPieces(HttpAnswer head, int64_t bytes, std::function<std::string()> next) override {
    ended_ = true;
    Post([head = std::move(head), bytes, next = std::move(next)](Connection& connection) mutable {
      connection.AnswerPieces(std::move(head), bytes, std::move(next));
    });
  }
  void StartEvents(std::map<std::string, std::string> headers) override {
    Post(
        [headers = std::move(headers)](Connection& connection) mutable { connection.StartEvents(std::move(headers)); });
  }
  void Event(std::string data) override {
    Post([data = std::move(data)](Connection& connection) { connection.Event(data); });
  }
  void EndEvents() override {
    ended_ = true;
    Post([](Connection& connection) { connection.EndEvents(); });
  }
  bool gone() const override { return connection_->gone(); }

 private:
  template <typename Call>
  void Post(Call call) {
    asio::post(shared_.context, [connection = connection_, number = number_, call = std::move(call)]() mutable {
      if (connection->number() == number) call(*connection);
    });
  }

  std::shared_ptr<Connection> connection_;
  const int64_t number_;
  Shared& shared_;
  bool ended_ = false;
};

void Connection::Handle() {
  timer_.cancel();
  ++number_;
  SetAnswering(true);
  keep_alive_ = parser_->get().keep_alive();
  head_only_ = parser_->get().method() == http::verb::head;
  HttpRequest request = Head();
  request.body = std::move(parser_->get().body());
  ReadAhead();
  auto reply = std::make_shared<ConnectionReply>(shared_from_this(), shared_);
  try {
    shared_.handler(std::move(request), reply);
  } catch (const std::exception& error) {
    TRIREME_LOG(ERROR) << "a request failed: " << error.what();
    reply->Send(AnswerOf({.status = 500, .message = "the server failed", .type = "server_error"}));
  }
}

}  // namespace

class HttpServer::Parts {
 public:
  Parts(const HttpAddress& address, const HttpLimits& limits, HttpCheck check, HttpHandler handler)
      : acceptor_(shared_.context) {
    shared_.tls = OpenTls(address.tls_certificate, address.tls_key);
    shared_.limits = limits;
    shared_.check = std::move(check);
    shared_.handler = std::move(handler);
    Listen(address.host, address.port);
    Accept();
    thread_ = std::thread([this] { shared_.context.run(); });
  }
  ~Parts() {
    for (int i = 0; i < 200 && shared_.answering > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    shared_.context.stop();
    thread_.join();
  }
  uint16_t port() const { return port_; }
  void StopAccepting() {
    asio::post(shared_.context, [this] {
      error_code ignored;
      acceptor_.close(ignored);
    });
  }

 private:
  void Listen(const std::string& host, uint16_t port) {
    error_code error;
    const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
    if (error)
      throw InputError("--host ", host, ": wanted an IP address of this machine, such as 127.0.0.1 or 0.0.0.0");
    const tcp::endpoint endpoint(address, port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw InputError("cannot listen on ", host, ":", port, ": ", error.message(),
                       "; choose another --port or --host");
    }
    port_ = acceptor_.local_endpoint().port();
  }

  void Accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return RetryAccept();  // out of file descriptors: the next one may succeed
      auto connection = std::make_shared<Connection>(std::move(socket), shared_);
      const bool full = shared_.connections > shared_.limits.connections ||
                        shared_.connections_of[connection->address()] > shared_.limits.connections_per_address;
      full ? connection->Refuse() : connection->Start();
      Accept();
    });
  }
  void RetryAccept() {
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([this](error_code error) {
      if (!error) Accept();
    });
  }

  Shared shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_{shared_.context};
  uint16_t port_ = 0;
  std::thread thread_;
};

HttpServer::HttpServer(const HttpAddress& address, const HttpLimits& limits, HttpCheck check, HttpHandler handler)
    : parts_(std::make_unique<Parts>(address, limits, std::move(check), std::move(handler))) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return parts_->port(); }
void HttpServer::StopAccepting() { parts_->StopAccepting(); }

}  // namespace trireme
