// TextService: lists of token ids from many threads to one model that gives each text its numbers: a vector, a score,
// labels. Rank 0 takes from a queue as many texts as a pass may have, of one request or of several; one broadcast tells
// all ranks, and all of them compute. Knows no protocol and no tensors.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/comm/job.h"
#include "serve/metrics.h"
#include "web/http/http.h"

namespace trireme {

using TextTokens = std::vector<int64_t>;
// Collective: as many numbers for each text as for every other, text by text.
using TextModel = std::function<std::vector<float>(const std::vector<TextTokens>&)>;

// Called on the service's thread; must not wait.
class TextListener {
 public:
  virtual ~TextListener() = default;
  virtual bool gone() const = 0;  // nobody waits any more
  virtual void Done(const std::vector<float>& numbers) = 0;
  virtual void Fail(const ApiError& error) = 0;
};

struct TextWork {
  std::vector<TextTokens> texts;  // at least one
  std::unique_ptr<TextListener> listener;
  double arrived = 0;  // in seconds; set by Submit
};

// From any thread.
class TextQueue {
 public:
  virtual ~TextQueue() = default;
  // Throws ApiError if there is no room, or the service is about to stop.
  virtual void Submit(TextWork work) = 0;
  virtual Metrics& metrics() = 0;
};

struct TextLimits {
  int64_t waiting = 256;      // requests that have not started
  int64_t tokens = 2048;      // of one pass; a longer text has one for itself
  double drain_seconds = 30;  // for what waits after the signal to stop
};

class TextService : public TextQueue {
 public:
  TextService(TextModel model, const TextLimits& limits, Job& job);
  ~TextService() override;

  // On rank 0.
  void Submit(TextWork work) override;
  Metrics& metrics() override { return metrics_; }
  // On every rank; returns when a signal asked for it (StopRequested) and what waited is done.
  void Run();

 private:
  struct Active;
  struct Part {
    Active* active;
    size_t text;
  };

  bool Draining();
  // What the next pass computes; empty: nothing waits.
  std::vector<Part> Collect();
  void TakeWaiting(int64_t tokens);
  std::vector<TextTokens> Exchange(const std::vector<Part>& parts, bool stop);
  void Deliver(const std::vector<Part>& parts, const std::vector<float>& numbers);
  void FailAll(const ApiError& error);

  const TextModel model_;
  const TextLimits limits_;
  Job& job_;
  Metrics metrics_;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<TextWork> queue_;  // from other threads
  bool closed_ = false;         // no more requests

  // Of the service's thread on rank 0: those of which some texts are computed or next.
  std::deque<std::unique_ptr<Active>> active_;
  std::optional<double> stop_at_;
  bool stop_ = false;  // told by the last exchange
};

}  // namespace trireme
