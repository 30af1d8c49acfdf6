// Board: the page and what it asks for, behind any server: `trireme board` has nothing else, `trireme serve` has a
// model with it. Runs are read on one thread of its own, which also looks for news; the server's thread never waits for
// a file.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "board/board_routes.h"
#include "board/live_feed.h"
#include "board/page_access.h"
#include "board/run_folders.h"
#include "board/run_routes.h"
#include "board/run_starter.h"
#include "serve/callers.h"
#include "web/http/http.h"

namespace trireme {

struct BoardOptions {
  std::vector<std::string> outputs = {};  // of runs, or directories that hold them
  bool has_chat = false;                  // the server has a model, too
  bool has_images = false;                // which sees images
  bool has_remote = false;                // and trains adapters of remote clients
  bool allow_start = false;               // runs may be started and stopped from the page
  bool key_in_address = false;            // the key was made for this start: the address that is printed has it
};

class Board {
 public:
  // `callers` outlives it. An input error if an output is not a directory.
  Board(const BoardOptions& options, const Callers& callers);
  ~Board();

  // For the server, before a request's body is read: whether it may come in, and the most bytes of its body (0: what
  // the server takes).
  int64_t Check(const HttpRequest& request) const;
  // Answers a request of the page and returns true, or leaves it to others, with the key that its cookie stands for.
  bool Handle(HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  int64_t runs() const { return first_runs_; }  // at the start
  // Ends what it streams and answers no more; before the server goes, which all replies need.
  void Stop();

 private:
  void AddPageRoutes();
  void AddRunRoutes();
  void AddStartRoutes();
  // On the server's thread.
  void Route(HttpRequest request, const std::shared_ptr<HttpReply>& reply);
  HttpResponse Page(const BoardCall& call);
  // Calls it and sends what it answers. What needs a log that is not read yet waits for it, on the board's thread.
  void Serve(const BoardRespond& respond, const BoardCall& call);
  bool Enqueue(std::function<void()> task);
  void Loop();
  bool RunTasks();  // false: it ends
  bool PollRuns();  // true: some log has more to read

  const BoardOptions options_;
  PageAccess access_;
  BoardTable table_;  // does not change after the start

  // Of the board's own thread.
  RunFolders folders_;
  RunRoutes routes_;
  LiveFeed feed_;
  RunStarter starter_;
  std::vector<std::function<void()>> deferred_;  // until more is read
  int64_t first_runs_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool ends_ = false, busy_ = true;
  std::thread thread_;
};

// Stops a board at the end of a scope: declared after the server, it runs before the server's end.
struct BoardStop {
  Board& board;
  ~BoardStop() { board.Stop(); }
};

}  // namespace trireme
