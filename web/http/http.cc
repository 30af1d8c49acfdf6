// What of http.h needs no library: names, and errors as answers.
#include "web/http/http.h"

#include "core/base/json.h"

namespace trireme {

std::string HttpRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::string LowerCase(std::string text) {
  for (char& letter : text) letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  return text;
}

// All at once, where a reply knows no better.
void HttpReply::SendPieces(HttpResponse head, int64_t /*bytes*/, std::function<std::string()> next) {
  for (std::string piece = next(); !piece.empty(); piece = next()) head.body += piece;
  Send(std::move(head));
}

HttpResponse ResponseOf(const ApiError& error) {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  HttpResponse response{.status = error.status};
  response.body = JsonLine(Json{{"error",
                                 {{"message", error.message},
                                  {"type", error.type},
                                  {"param", text_or_null(error.param)},
                                  {"code", text_or_null(error.code)}}}});
  if (!error.allow.empty()) response.headers["Allow"] = error.allow;
  if (error.status == 401) response.headers["WWW-Authenticate"] = "Bearer";
  if (error.status == 429 || error.status == 503) response.headers["Retry-After"] = "1";
  return response;
}

}  // namespace trireme
