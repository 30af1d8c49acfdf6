#include "train/rollouts/reward_endpoint.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "core/base/error.h"

namespace trireme {
namespace {

using EndpointClock = std::chrono::steady_clock;
constexpr char kHttp[] = "http://";
constexpr size_t kLargestAnswer = size_t{64} << 20;

// A connection to an address that sends and receives within a time limit.
class Connection {
 public:
  Connection(const HttpAddress& address, std::string who, double seconds)
      : who_(std::move(who)),
        seconds_(seconds),
        end_(EndpointClock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000))) {
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
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - EndpointClock::now()).count();
    pollfd one = {socket_, events, 0};
    if (left > 0 && poll(&one, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30))) != 0) return;
    throw RuntimeError(who_, " did not answer in rl.reward_seconds = ", seconds_);
  }

  const std::string who_;
  const double seconds_;
  const EndpointClock::time_point end_;
  int socket_ = -1;
};

// The body of an answer with status 200.
std::string BodyOf(const std::string& answer, const std::string& who) {
  const size_t body = answer.find("\r\n\r\n"), code = answer.find(' ');
  if (!answer.starts_with("HTTP/1.") || body == std::string::npos || code == std::string::npos) {
    throw RuntimeError(who, " answered '", answer.substr(0, 80), "'; wanted HTTP");
  }
  if (answer.compare(code + 1, 3, "200") != 0) {
    throw RuntimeError(who, " answered with status ", answer.substr(code + 1, answer.find("\r\n") - code - 1), ": ",
                       answer.substr(body + 4, 200));
  }
  return answer.substr(body + 4);
}

}  // namespace

HttpAddress ParseHttpAddress(const std::string& address) {
  const std::string rest = address.starts_with(kHttp) ? address.substr(sizeof kHttp - 1) : "";
  const std::string place = rest.substr(0, rest.find('/'));
  const size_t colon = place.find(']') == std::string::npos ? place.rfind(':') : place.find(':', place.find(']'));
  HttpAddress parts{.host = place.substr(0, colon),
                    .port = colon == std::string::npos ? "80" : place.substr(colon + 1),
                    .path = place.size() < rest.size() ? rest.substr(place.size()) : "/"};
  if (parts.host.starts_with("[") && parts.host.ends_with("]")) parts.host = parts.host.substr(1, parts.host.size() - 2);
  const bool digits = !parts.port.empty() && std::ranges::all_of(parts.port, [](char c) { return c >= '0' && c <= '9'; });
  const bool plain = address.find_first_of(" \r\n") == std::string::npos;
  if (!parts.host.empty() && digits && plain) return parts;
  throw InputError("rl.rewards has '", address, "'; wanted http://HOST:PORT/PATH",
                   address.starts_with("https:") ? ": https is not supported, let a local proxy speak it" : "");
}

std::vector<double> RewardEndpoint::Ask(std::span<const Judged> completions) {
  Json asked = {{"model", "model"}, {"messages", Json::array()}, {"completions", Json::array()}};
  for (const Judged& one : completions) {
    asked["messages"].push_back(one.prompt->text + one.rollout->completion);
    asked["completions"].push_back(QuestionAbout(one));
  }
  const std::string body = JsonLine(asked), who = Concat("the reward endpoint ", options().target);
  Connection connection(address_, who, options().seconds);
  // As HTTP/1.0, in which an answer is whole and ends with the connection.
  connection.Send(Concat("POST ", address_.path, " HTTP/1.0\r\nHost: ", address_.host, ":", address_.port,
                         "\r\nContent-Type: application/json\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
  const std::string text = BodyOf(connection.ReceiveAll(), who);
  const Json answer = TryParseJson(text);
  const Json scores = answer.is_object() && answer.contains("scores") ? answer.at("scores") : answer;
  const std::string wanted = "{\"scores\": [...]} with a finite number or null for each completion";
  if (!scores.is_array()) throw RuntimeError(who, " answered '", text.substr(0, 80), "'; wanted ", wanted);
  if (scores.size() != completions.size()) {
    throw RuntimeError(who, " answered with ", scores.size(), " scores for ", completions.size(), " completions; wanted ", wanted);
  }
  std::vector<double> rewards;
  for (const Json& score : scores) rewards.push_back(RewardIn(score, JsonLine(score), who, wanted));
  return rewards;
}

}  // namespace trireme
