#include "web/http/http_client.h"

#include <memory>
#include <optional>

#include "core/base/error.h"
#include "web/http/byte_channel.h"
#include "web/http/http_proxy.h"
#include "web/http/tls_channel.h"

namespace trireme {
namespace {

constexpr size_t kLargestResponse = size_t{256} << 20, kLargestHead = size_t{256} << 10;
constexpr char kHeadEnd[] = "\r\n\r\n";

// A proxy gets the whole address of what it is to fetch; behind a tunnel there is none.
std::string RequestText(const HttpTarget& target, const HttpQuestion& question, const HttpProxy* proxy) {
  const std::string method = !question.method.empty()                         ? question.method
                             : question.body.empty() && !question.upload.next ? "GET"
                                                                              : "POST";
  std::string text =
      Concat(method, " ", proxy != nullptr ? target.text() : target.path, " HTTP/1.1\r\nHost: ", target.authority(),
             "\r\nUser-Agent: trireme\r\nConnection: close\r\nAccept-Encoding: identity\r\n");
  if (proxy != nullptr) text += proxy->AuthorizationLine();
  if (!question.api_key.empty()) text += "Authorization: Bearer " + question.api_key + "\r\n";
  if (!question.body.empty())
    text += Concat("Content-Type: ", question.type, "\r\nContent-Length: ", question.body.size(), "\r\n");
  if (question.upload.next) text += Concat("Content-Length: ", question.upload.bytes, "\r\n");
  for (const auto& [name, value] : question.headers) text += Concat(name, ": ", value, "\r\n");
  return text + "\r\n" + question.body;
}

// The response's head, and what has come after it.
std::pair<HttpHead, std::string> ReceiveHead(ByteChannel& channel, const std::string& who) {
  std::string text;
  size_t end = std::string::npos;
  char buffer[1 << 14];
  while (end == std::string::npos && text.size() < kLargestHead) {
    const size_t count = channel.Receive(buffer, sizeof buffer);
    if (count == 0) break;
    text.append(buffer, count);
    end = text.find(kHeadEnd);
  }
  HttpHead head = end == std::string::npos ? HttpHead{} : ParseHttpHead(std::string_view(text).substr(0, end));
  if (head.status == 0) throw RuntimeError(who, " answered '", text.substr(0, 80), "'; wanted HTTP");
  text.erase(0, end + sizeof kHeadEnd - 1);
  return {std::move(head), std::move(text)};
}

HttpResult ReceiveResponse(ByteChannel& channel, const HttpQuestion& question) {
  auto [head, begin] = ReceiveHead(channel, question.who);
  HttpResult result{std::move(head)};
  if (question.method == "HEAD") return result;
  const bool sinks = question.sink && result.status >= 200 && result.status < 300;
  HttpBody body(result, [&](std::string_view bytes) {
    if (sinks) return question.sink(result, bytes);
    result.body += bytes;
    if (result.body.size() > kLargestResponse)
      throw RuntimeError(question.who, " answered with more than ", kLargestResponse, " bytes");
  });
  body.Take(begin);
  std::vector<char> buffer(size_t{1} << 18);
  while (!body.ended()) {
    const size_t count = channel.Receive(buffer.data(), buffer.size());
    if (count == 0) break;
    body.Take({buffer.data(), count});
  }
  if (body.ended() || body.MayEndHere()) return result;
  const int64_t length = result.content_length();
  throw RuntimeError(question.who, " closed the connection after ", body.taken(),
                     length < 0 ? "" : Concat(" of ", length), " bytes of its response");
}

void SendUpload(ByteChannel& channel, const HttpQuestion& question) {
  int64_t left = question.upload.bytes;
  while (left > 0) {
    const std::string piece = question.upload.next();
    TRIREME_CHECK(!piece.empty() && static_cast<int64_t>(piece.size()) <= left);
    channel.Send(piece);
    left -= static_cast<int64_t>(piece.size());
  }
}

// A server that refuses a body may close the connection before it has all of it; what it said is there all the same.
HttpResult SendAndReceive(ByteChannel& channel, const HttpQuestion& question) {
  if (!question.upload.next) return ReceiveResponse(channel, question);
  try {
    SendUpload(channel, question);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kRuntime) throw;
    try {
      return ReceiveResponse(channel, question);
    } catch (const Error&) {
      throw Error(error);
    }
  }
  return ReceiveResponse(channel, question);
}

// Afterwards the proxy passes on what is sent and received.
void OpenTunnel(Socket& socket, const HttpTarget& target, const HttpProxy& proxy) {
  const std::string place =
      Concat(target.host.find(':') == std::string::npos ? target.host : "[" + target.host + "]", ":", target.port);
  socket.Send(Concat("CONNECT ", place, " HTTP/1.1\r\nHost: ", place, "\r\nUser-Agent: trireme\r\n",
                     proxy.AuthorizationLine(), "\r\n"));
  const HttpHead head = ReceiveHead(socket, socket.who()).first;
  if (head.status >= 200 && head.status < 300) return;
  throw RuntimeError(socket.who(), " cannot be reached: the proxy ", proxy.target.authority(), " (", proxy.variable,
                     ") answered ", head.reason);
}

}  // namespace

HttpResult AskHttp(const HttpTarget& target, const HttpQuestion& question) {
  const std::optional<HttpProxy> proxy = question.by_proxy ? ProxyFor(target) : std::nullopt;
  Socket socket(proxy ? proxy->target : target,
                {.who = proxy ? Concat(question.who, " (by ", proxy->variable, ")") : question.who,
                 .limit = question.limit,
                 .seconds = question.seconds,
                 .per_wait = question.sink != nullptr || question.upload.next != nullptr,
                 .gives_up = question.gives_up});
  if (proxy && target.tls) OpenTunnel(socket, target, *proxy);
  std::unique_ptr<TlsChannel> tls;
  if (target.tls) tls = std::make_unique<TlsChannel>(socket, target.host);
  ByteChannel& channel = tls ? static_cast<ByteChannel&>(*tls) : socket;
  channel.Send(RequestText(target, question, proxy && !target.tls ? &*proxy : nullptr));
  return SendAndReceive(channel, question);
}

}  // namespace trireme
