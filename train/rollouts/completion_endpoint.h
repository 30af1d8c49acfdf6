// CompletionEndpoint: an OpenAI-compatible server that samples completions: POST /completions with a prompt's token
// ids, answered with the token ids and log-probabilities of each completion (return_token_ids, as vLLM and `trireme
// serve` have it). A request that fails is repeated; one that the server refuses is not. When which weights are there
// is decided elsewhere. No torch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/config.pb.h"
#include "train/rollouts/rollout.h"
#include "web/http/http_client.h"

namespace trireme {

struct EndpointOptions {
  int64_t vocabulary = 0;       // ids are below it
  std::set<int64_t> ends = {};  // tokens that end a completion
  std::function<bool()> gives_up =
      {};  // whether nobody waits any more: requests end with an error, and are not repeated
};

class CompletionEndpoint {
 public:
  // `config` outlives it. Reads rl.sampler.key_file; refuses an address that is none.
  CompletionEndpoint(const Config& config, EndpointOptions options);

  // Asks for the model's name, and for one token after this prompt: an input error says why it cannot sample for this
  // run.
  void Check(const std::vector<int64_t>& prompt);
  // rl.group completions of a prompt by the model of this name (empty: rl.sampler.model). May be called by several
  // threads.
  std::vector<Rollout> Sample(const std::vector<int64_t>& prompt, int64_t seed, const std::string& model);
  // The name that requests use.
  const std::string& model();
  // Loads a LoRA adapter from a directory, or drops it.
  void LoadAdapter(const std::string& name, const std::string& directory);
  void DropAdapter(const std::string& name);
  // Requests that were repeated so far.
  int64_t repeats() const { return repeats_; }

 private:
  Json RequestFor(const std::vector<int64_t>& prompt, int64_t seed, const std::string& model) const;
  // The answer to a request that succeeded, after as many tries as rl.sampler.retries says.
  std::string Ask(const std::string& path, const std::string& body);
  HttpResult AskOnce(const std::string& path, const std::string& body) const;
  std::vector<Rollout> CompletionsIn(const std::string& answer, const std::vector<int64_t>& prompt,
                                     int64_t count) const;
  Rollout CompletionIn(const Json& choice, const std::vector<int64_t>& prompt) const;
  [[noreturn]] void Fail(const std::string& what) const;

  const Config& config_;
  const EndpointOptions options_;
  const HttpTarget target_;  // its path is the prefix of all
  const std::string who_;
  std::string api_key_, model_;
  std::atomic<int64_t> repeats_{0};
};

// Whether the server's log-probabilities are those of the distribution that is trained, so that they can be compared.
bool HasComparableLogProbs(const Config& config);

}  // namespace trireme
