// What a route of the board is: what it does, and on which thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "web/http/http.h"
#include "web/http/routes.h"

namespace trireme {

struct BoardCall {
  HttpRequest request;
  PathValues values;
  std::shared_ptr<HttpReply> reply;
};

// Nothing: the reply is answered otherwise. Throws an ApiError to refuse.
using BoardRespond = std::function<std::optional<HttpResponse>(const BoardCall&)>;

struct BoardHandler {
  BoardRespond respond;
  bool reads_files = true;  // on the board's own thread; otherwise at once, on the server's
};

using BoardTable = RouteTable<BoardHandler>;

}  // namespace trireme
