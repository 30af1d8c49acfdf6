// RunRoutes: what the paths below /board/runs answer: the list of runs, newest first, and of one run its columns,
// single lines, its configuration, timeline and rollouts. Reads files, so it runs on the board's own thread.
#pragma once

#include <memory>

#include "board/board_routes.h"
#include "board/run_folders.h"
#include "core/base/json.h"
#include "web/http/http.h"

namespace trireme {

// The code of an ApiError: ask again once more of the log was read.
inline constexpr const char* kStillReading = "reading";

class RunRoutes {
 public:
  explicit RunRoutes(const RunFolders& runs) : runs_(runs) {}  // which outlives it

  void AddTo(BoardTable& table) const;

 private:
  HttpResponse List() const;
  std::shared_ptr<BoardRun> RunOf(const BoardCall& call) const;

  const RunFolders& runs_;
};

}  // namespace trireme
