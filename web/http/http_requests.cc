// The reading side of a connection: headers, checks, bodies, clients that leave.
#include "web/http/http_connection.h"

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"

namespace trireme {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

Connection::Connection(tcp::socket socket, HttpShared& shared)
    : stream_(std::move(socket), shared.tls.get()), shared_(shared), timer_(shared.context) {
  error_code ignored;
  stream_.socket().set_option(tcp::no_delay(true), ignored);
  const auto peer = stream_.socket().remote_endpoint(ignored);
  address_ = ignored ? "" : peer.address().to_string();
  ++shared_.connections;
  ++shared_.connections_of[address_];
}

Connection::~Connection() {
  SetIdle(false);
  SetAnswering(false);
  Uncount();
}

void Connection::Uncount() {
  if (!std::exchange(counted_, false)) return;
  --shared_.connections;
  if (--shared_.connections_of[address_] == 0) shared_.connections_of.erase(address_);
}

void Connection::Start() {
  if (!stream_.tls()) return AwaitRequest();
  SetIdle(true);
  Deadline(shared_.limits.header_seconds);
  stream_.async_handshake([self = shared_from_this()](error_code error) {
    if (!self->gone_) error ? self->Close() : self->AwaitRequest();
  });
}

void Connection::Refuse() {
  if (stream_.tls()) return Close();  // a handshake is what it must not get
  keep_alive_ = false;
  SetAnswering(true);
  Respond(ResponseOf({.status = 503, .message = "too many connections", .code = "overloaded", .type = "server_error"}));
}

void Connection::Close() {
  gone_ = true;
  SetAnswering(false);
  SetIdle(false);
  Uncount();
  next_piece_ = nullptr;
  timer_.cancel();
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.socket().close(ignored);
}

// Idle: without a request whose headers are complete. Where there are too many connections, these go first.
void Connection::SetIdle(bool idle) {
  if (idle == idle_.has_value()) return;
  if (idle) {
    idle_ = shared_.idle.insert(shared_.idle.end(), this);
  } else {
    shared_.idle.erase(*std::exchange(idle_, std::nullopt));
  }
}

void Connection::AwaitRequest() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(shared_.limits.header_bytes));
  LimitBody(shared_.limits.body_bytes);
  SetAnswering(false);
  SetIdle(true);
  streaming_ = finished_ = false;
  if (buffer_.size() > 0) return watching_ ? Close() : ReadHeader();
  Deadline(first_ ? shared_.limits.header_seconds : shared_.limits.idle_seconds);
  first_ = false;
  if (!watching_) ReadAhead();
}

void Connection::LimitBody(int64_t most_bytes) {
  most_body_ = most_bytes;
  parser_->body_limit(static_cast<uint64_t>(most_bytes));
}

void Connection::ReadHeader() {
  Deadline(shared_.limits.header_seconds);
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](error_code error, size_t) { self->HeaderCame(error); });
}

void Connection::HeaderCame(error_code error) {
  if (gone_) return;
  SetIdle(false);
  if (error) return Malformed(error);
  if (!CheckHeader()) return;
  Deadline(shared_.limits.body_seconds);
  if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
    auto text = std::make_shared<std::string>("HTTP/1.1 100 Continue\r\n\r\n");
    asio::async_write(stream_, asio::buffer(*text), [self = shared_from_this(), text](error_code failed, size_t) {
      failed ? self->Close() : self->ReadBody();
    });
    return;
  }
  ReadBody();
}

bool Connection::CheckHeader() {
  const auto& head = parser_->get();
  const auto refuse = [this](const ApiError& error) {
    RefuseRequest(error);
    return false;
  };
  if (std::distance(head.begin(), head.end()) > shared_.limits.header_lines)
    return refuse({.status = 431, .message = "too many header lines"});
  if (static_cast<int64_t>(head.target().size()) > shared_.limits.target_bytes)
    return refuse({.status = 414, .message = "the path is too long"});
  // By these a caller is let in: of two, a proxy before this server may have looked at the other one.
  for (const http::field name : {http::field::host, http::field::origin, http::field::authorization}) {
    if (head.count(name) > 1) return refuse({.message = Concat("there are two headers ", http::to_string(name))});
  }
  request_ = Head();
  try {
    if (const int64_t most = shared_.check(request_); most > 0) LimitBody(std::min(most, most_body_));
  } catch (const ApiError& error) {
    return refuse(error);
  }
  const auto length = parser_->content_length();
  if (length && *length > static_cast<uint64_t>(most_body_)) {
    Malformed(http::error::body_limit);
    return false;
  }
  return true;
}

void Connection::ReadBody() {
  http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
    if (self->gone_) return;
    if (error) return self->Malformed(error);
    self->Handle();
  });
}

void Connection::Malformed(error_code error) {
  if (error == http::error::body_limit) {
    return RefuseRequest(413, Concat("the body is larger than ", most_body_, " bytes"), "request_too_large");
  }
  if (error == http::error::header_limit) return RefuseRequest(431, "the headers are too large");
  if (error.category() == http::make_error_code(http::error::end_of_stream).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return RefuseRequest(400, "not an HTTP request");
  }
  Close();
}

// What follows such a request cannot be read any more.
void Connection::RefuseRequest(int status, const std::string& message, const std::string& code) {
  RefuseRequest({.status = status, .message = message, .code = code});
}

void Connection::RefuseRequest(const ApiError& error) {
  keep_alive_ = false;
  SetAnswering(true);
  head_only_ = false;
  Respond(ResponseOf(error));
}

// The request without its body.
HttpRequest Connection::Head() const {
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

// One read that serves two ends: it begins the next request, and while a response is made it notices a client that
// leaves. What comes as early as that cannot be parsed beside such a read: the connection ends after the response.
void Connection::ReadAhead() {
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

void Connection::SetAnswering(bool answering) {
  shared_.answering += static_cast<int64_t>(answering) - static_cast<int64_t>(answering_);
  answering_ = answering;
}

void Connection::Deadline(double seconds) {
  timer_.expires_after(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
  timer_.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    // A deadline that was moved while this call was on its way is not over.
    if (self && !error && self->timer_.expiry() <= asio::steady_timer::clock_type::now()) self->Close();
  });
}

}  // namespace trireme
