// RunRoutes: what the paths below /board/runs answer: the list of runs, and of one run its columns, single lines, its
// configuration, timeline and rollouts. Reads files, so it runs on the board's own thread.
#pragma once

#include <string>

#include "board/run_folders.h"
#include "core/base/json.h"
#include "web/http/http.h"

namespace trireme {

// The value of a name in a request's query, decoded; `fallback` if it has none.
std::string QueryValue(const HttpRequest& request, const std::string& name, const std::string& fallback = "");

// The code of an ApiError: ask again once more of the log was read.
inline constexpr const char* kStillReading = "reading";

class RunRoutes {
 public:
  explicit RunRoutes(const RunFolders& runs) : runs_(runs) {}  // which outlives it

  // Throws an ApiError for what does not exist.
  HttpAnswer Answer(const HttpRequest& request) const;

 private:
  HttpAnswer List() const;

  const RunFolders& runs_;
};

}  // namespace trireme
