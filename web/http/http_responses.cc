// The writing side of a connection: answers whole, in pieces, or as events; and replies, which reach it from any
// thread.
#include "web/http/http_connection.h"

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"

namespace trireme {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

namespace {

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

// A request's number on its connection keeps late replies from the next one.
class ConnectionReply : public HttpReply {
 public:
  ConnectionReply(std::shared_ptr<Connection> connection, HttpShared& shared)
      : connection_(std::move(connection)), number_(connection_->number()), shared_(shared) {}
  ~ConnectionReply() override {
    if (!ended_) Send(ResponseOf({.status = 500, .message = "no response was made", .type = "server_error"}));
    // The last reference must not end on this thread: connections belong to the server's.
    asio::post(shared_.context, [connection = std::move(connection_)] {});
  }
  void Send(HttpResponse response) override {
    ended_ = true;
    Post([response = std::move(response)](Connection& connection) mutable { connection.Respond(std::move(response)); });
  }
  void SendPieces(HttpResponse head, int64_t bytes, std::function<std::string()> next) override {
    ended_ = true;
    Post([head = std::move(head), bytes, next = std::move(next)](Connection& connection) mutable {
      connection.RespondInPieces(std::move(head), bytes, std::move(next));
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
  HttpShared& shared_;
  bool ended_ = false;
};

}  // namespace

void Connection::Handle() {
  timer_.cancel();
  ++number_;
  SetAnswering(true);
  keep_alive_ = parser_->get().keep_alive();
  head_only_ = parser_->get().method() == http::verb::head;
  HttpRequest request = std::move(request_);
  request.body = std::move(parser_->get().body());
  ReadAhead();
  auto reply = std::make_shared<ConnectionReply>(shared_from_this(), shared_);
  try {
    shared_.handler(std::move(request), reply);
  } catch (const std::exception& error) {
    TRIREME_LOG(ERROR) << "a request failed: " << error.what();
    reply->Send(ResponseOf({.status = 500, .message = "the server failed", .type = "server_error"}));
  }
}

void Connection::Respond(HttpResponse response) {
  if (gone_ || !answering_ || streaming_) return;
  const auto bytes = std::ssize(response.body);
  Queue(ResponseHead(response, bytes) + (head_only_ ? "" : std::move(response.body)));
  finished_ = true;
}

void Connection::RespondInPieces(HttpResponse response, int64_t bytes, std::function<std::string()> next) {
  if (gone_ || !answering_ || streaming_) return;
  streaming_ = true;
  next_piece_ = std::move(next);
  if (head_only_ || bytes == 0) {
    next_piece_ = nullptr;
    finished_ = true;
  }
  Queue(ResponseHead(response, bytes));
}

void Connection::StartEvents(std::map<std::string, std::string> headers) {
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

void Connection::Event(const std::string& data) {
  if (gone_ || !streaming_ || finished_) return;
  if (queued_ > shared_.limits.queued_bytes) return Close();  // reads too slowly
  Queue(ChunkOf("data: " + data + "\n\n"));
}

void Connection::EndEvents() {
  if (gone_ || !streaming_ || finished_) return;
  Queue("0\r\n\r\n");
  finished_ = true;
}

std::string Connection::ResponseHead(HttpResponse& response, int64_t bytes) {
  response.headers["Content-Type"] = response.type;
  response.headers["Content-Length"] = std::to_string(bytes);
  response.headers["X-Content-Type-Options"] = "nosniff";
  keep_alive_ = keep_alive_ && buffer_.size() == 0;
  response.headers["Connection"] = keep_alive_ ? "keep-alive" : "close";
  return HeadOf(response.status, response.headers);
}

// Of a response in pieces the next one; a file that cannot be read any more leaves it short, which clients notice.
void Connection::QueuePiece() {
  try {
    std::string piece = next_piece_();
    if (!piece.empty()) return Queue(std::move(piece));
  } catch (const std::exception& error) {
    TRIREME_LOG(ERROR) << "a response was cut off: " << error.what();
    return Close();
  }
  next_piece_ = nullptr;
  finished_ = true;
  Write();
}

void Connection::Queue(std::string data) {
  queued_ += static_cast<int64_t>(data.size());
  queue_.push_back(std::move(data));
  if (!writing_) Write();
}

void Connection::Write() {
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

void Connection::Done() {
  SetAnswering(false);
  keep_alive_ ? AwaitRequest() : CloseGently();
}

// A peer that is still sending would otherwise lose the response to a reset.
void Connection::CloseGently() {
  error_code ignored;
  if (watching_) return Close();  // nothing that was sent is unread
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  Deadline(1);
  Drain();
}

void Connection::Drain() {  // what comes means nothing any more: not even TLS reads it
  buffer_.clear();
  stream_.socket().async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code error, size_t count) {
    if (self->gone_) return;
    self->drained_ += static_cast<int64_t>(count);
    if (error || self->drained_ > (8 << 20)) return self->Close();
    self->Drain();
  });
}

}  // namespace trireme
