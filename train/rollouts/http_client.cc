#include "train/rollouts/http_client.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>

#include "core/base/error.h"

namespace trireme {
namespace {

using EndpointClock = std::chrono::steady_clock;
constexpr char kHttp[] = "http://";
constexpr size_t kLargestAnswer = size_t{256} << 20;

// A connection to an address that sends and receives within a time limit.
class Connection {
 public:
  Connection(const HttpTarget& address, const HttpQuestion& question)
      : who_(question.who),
        limit_(question.limit),
        gives_up_(question.gives_up),
        seconds_(question.seconds),
        end_(EndpointClock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds_ * 1000))) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
    if (error != 0) throw RuntimeError(who_, " cannot be found: ", gai_strerror(error));
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
    std::string why;
    for (const addrinfo* one = addresses.get(); one != nullptr && socket_ < 0; one = one->ai_next) why = TryConnect(*one);
    if (socket_ < 0) throw RuntimeError(who_, " cannot be reached: ", why);
  }
  ~Connection() {
    if (socket_ >= 0) close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Send(const std::string& text) {
    for (size_t sent = 0; sent < text.size();) {
      Wait(POLLOUT);
      const ssize_t count = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN) throw RuntimeError(who_, " closed the connection: ", std::strerror(errno));
      sent += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
  }

  // Until the other side closes.
  std::string ReceiveAll() {
    std::string text;
    for (;;) {
      Wait(POLLIN);
      char buffer[1 << 16];
      const ssize_t count = recv(socket_, buffer, sizeof buffer, 0);
      if (count == 0) return text;
      if (count < 0 && errno == EAGAIN) continue;
      if (count < 0) throw RuntimeError(who_, " closed the connection: ", std::strerror(errno));
      text.append(buffer, static_cast<size_t>(count));
      if (text.size() > kLargestAnswer) throw RuntimeError(who_, " answered with more than ", kLargestAnswer, " bytes");
    }
  }

 private:
  // Why not, or nothing.
  std::string TryConnect(const addrinfo& address) {
    socket_ = socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol);
    if (socket_ < 0) return std::strerror(errno);
    int error = connect(socket_, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      Wait(POLLOUT);
      socklen_t size = sizeof error;
      getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return "";
    close(socket_);
    socket_ = -1;
    return std::strerror(error);
  }

  void Wait(short events) {
    constexpr int64_t kPoll_ms = 200;
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - EndpointClock::now()).count();
      if (left <= 0) throw RuntimeError(who_, " did not answer in ", limit_, " = ", seconds_);
      if (gives_up_ && gives_up_()) throw RuntimeError(who_, " is not waited for any more");
      pollfd one = {socket_, events, 0};
      if (poll(&one, 1, static_cast<int>(std::min<int64_t>(left, kPoll_ms))) != 0) return;
    }
  }

  const std::string who_, limit_;
  const std::function<bool()> gives_up_;
  const double seconds_;
  const EndpointClock::time_point end_;
  int socket_ = -1;
};

// The number in the header Content-Length; -1: there is none.
int64_t ContentLength(std::string headers) {
  std::ranges::transform(headers, headers.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr char kName[] = "\r\ncontent-length:";
  const size_t found = headers.find(kName);
  if (found == std::string::npos) return -1;
  const size_t first = headers.find_first_not_of(' ', found + sizeof kName - 1);
  int64_t length = -1;
  if (first != std::string::npos) std::from_chars(headers.data() + first, headers.data() + headers.size(), length);
  return length;
}

HttpResult ResultOf(const std::string& answer, const std::string& who) {
  const size_t body = answer.find("\r\n\r\n"), code = answer.find(' ');
  HttpResult result;
  if (answer.starts_with("HTTP/1.") && body != std::string::npos && code < body) {
    result.reason = answer.substr(code + 1, answer.find("\r\n") - code - 1);
    std::from_chars(result.reason.data(), result.reason.data() + result.reason.size(), result.status);
  }
  if (result.status == 0) throw RuntimeError(who, " answered '", answer.substr(0, 80), "'; wanted HTTP");
  result.body = answer.substr(body + 4);
  const int64_t length = ContentLength(answer.substr(0, body));
  if (length >= 0 && std::ssize(result.body) < length) {
    throw RuntimeError(who, " closed the connection after ", result.body.size(), " of ", length, " bytes of its answer");
  }
  return result;
}

}  // namespace

HttpTarget ParseHttpTarget(const std::string& address, const std::string& key) {
  const std::string rest = address.starts_with(kHttp) ? address.substr(sizeof kHttp - 1) : "";
  const std::string place = rest.substr(0, rest.find('/'));
  const size_t colon = place.find(']') == std::string::npos ? place.rfind(':') : place.find(':', place.find(']'));
  HttpTarget parts{.host = place.substr(0, colon),
                    .port = colon == std::string::npos ? "80" : place.substr(colon + 1),
                    .path = place.size() < rest.size() ? rest.substr(place.size()) : "/"};
  if (parts.host.starts_with("[") && parts.host.ends_with("]")) parts.host = parts.host.substr(1, parts.host.size() - 2);
  const bool digits = !parts.port.empty() && std::ranges::all_of(parts.port, [](char c) { return c >= '0' && c <= '9'; });
  const bool plain = address.find_first_of(" \r\n") == std::string::npos;
  if (!parts.host.empty() && digits && plain) return parts;
  throw InputError(key, " has '", address, "'; wanted http://HOST:PORT/PATH",
                   address.starts_with("https:") ? ": https is not supported, let a local proxy speak it" : "");
}

HttpResult AskHttp(const HttpTarget& target, const HttpQuestion& question) {
  Connection connection(target, question);
  const bool v6 = target.host.find(':') != std::string::npos;
  // As HTTP/1.0, in which an answer is whole and ends with the connection.
  std::string head = Concat(question.body.empty() ? "GET " : "POST ", target.path, " HTTP/1.0\r\nHost: ",
                            v6 ? "[" + target.host + "]" : target.host, ":", target.port, "\r\n");
  if (!question.api_key.empty()) head += "Authorization: Bearer " + question.api_key + "\r\n";
  if (!question.body.empty()) {
    head += Concat("Content-Type: application/json\r\nContent-Length: ", question.body.size(), "\r\n");
  }
  connection.Send(head + "\r\n" + question.body);
  return ResultOf(connection.ReceiveAll(), question.who);
}

}  // namespace trireme
