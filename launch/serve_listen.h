// How `trireme serve` listens: its address, its limits, what is checked before a body is read, and who then has the
// request: the board, or the gate to the server's paths.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "board/board.h"
#include "core/cli/command.h"
#include "launch/serve_gate.h"
#include "serve/callers.h"
#include "web/http/http.h"

namespace trireme {

// Listens at once, so that a port in use is noticed before the weights are read.
std::unique_ptr<HttpServer> Listen(const Arguments& arguments, const std::string& host, Board& board,
                                   const Callers& callers, Gate& gate);
// "https://127.0.0.1:8000/v1".
std::string UrlOf(const Arguments& arguments, const std::string& host, const HttpServer& server);
// Where there are no keys: who may use the server then.
void WarnOfOpenDoors(const Arguments& arguments, const std::string& host);
// Of address, keys and limits, which all servers have.
std::vector<Option> ListenOptions();

}  // namespace trireme
