// GenerationService: what protocols need of the service: requests go in, tokens come back to each request's listener,
// adapters come and go. Knows no protocol and no engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/metrics.h"
#include "serve/openai_request.h"
#include "web/http/http.h"

namespace trireme {

struct NewToken;

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

// Called on the service's thread, in order; must not wait.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual bool gone() const = 0;  // nobody waits any more: the rows are ended before the next step
  virtual void Start() = 0;
  // text: what became certain with this token; often nothing.
  virtual void Token(size_t choice, const NewToken& token, const std::string& text) = 0;
  virtual void End(size_t choice, const std::string& reason) = 0;
  virtual void Done(const Usage& usage) = 0;
  virtual void Fail(const ApiError& error) = 0;
};

struct Generation {
  CompletionRequest request;
  std::string salt = {};  // of its tenant
  std::unique_ptr<Listener> listener = {};
  double arrived = 0;  // in seconds; set by Submit
};

// An adapter to load or to drop while the service runs.
struct AdapterChange {
  std::string name;
  std::string directory;  // empty: drop it
  bool replace = false;   // load it even if the name is taken
  // Called once, on the service's thread; nullptr: done.
  std::function<void(const ApiError*)> done;
};

// From any thread.
class GenerationService {
 public:
  virtual ~GenerationService() = default;
  // Throws ApiError if there is no room, or the service is about to stop.
  virtual void Submit(Generation generation) = 0;
  // Takes effect between two steps; rows of a dropped adapter keep it to their end.
  virtual void Change(AdapterChange change) = 0;
  virtual Metrics& metrics() = 0;
};

}  // namespace trireme
