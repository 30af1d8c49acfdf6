// What a Service keeps of running requests, and what all ranks are told before a step. For the service's own files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "serve/service.h"

namespace trireme {

struct Service::Choice {
  Completion completion;
  int64_t row = -1;
  double last_token = 0;  // when it came; 0: none yet
};

struct Service::Active {
  Generation generation;
  double started = 0, first_token = 0;
  std::vector<Choice> choices = {};  // prompt by prompt
  size_t left = 0;
  Usage usage = {};
};

// What all ranks are told before a step.
struct Service::Events {
  std::vector<int64_t> ends;
  Json adds = Json::array();     // {prompts, n, sampling, top, salt, adapter, json, images: bytes in `pixels`}
  Json changes = Json::array();  // {name, directory} of adapters; an empty directory: drop it
  bool stop = false;
  std::string work;    // a unit of other work; sent by itself, since it may be large
  std::string pixels;  // of all adds' images, sent by itself, too; left empty in a process that runs alone
  bool waits = false;  // nothing to do
  std::vector<std::unique_ptr<Active>> actives;  // of the adds, on rank 0 only
  std::vector<AdapterChange> changers;           // of the changes, on rank 0 only
  std::vector<std::unique_ptr<Active>> late;     // whose adapter is gone, on rank 0 only

  std::string Text() const;  // for the other ranks; "w": it only waits
};

// How a request's sampling travels in Events::adds.
Json SamplingJson(const Sampling& sampling);
Sampling SamplingOfJson(const Json& json);

}  // namespace trireme
