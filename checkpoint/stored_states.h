// StoredStates: what an optimizer of another system keeps beside a model's weights, by Hugging Face name, so that a run
// of ours resumes from it. Nothing of random numbers and of the position in the data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace trireme {

class StoredStates {
 public:
  virtual ~StoredStates() = default;
  // Those of a weight: "exp_avg", "exp_avg_sq" and, of one that is not fp32 itself, "master". None: it is not trained.
  virtual std::vector<std::string> Of(const std::string& name) const = 0;
  virtual TensorView Describe(const std::string& state, const std::string& name) const = 0;
  virtual void Read(const std::string& state, const std::string& name, void* target) const = 0;  // row-major
  virtual int64_t step() const = 0;                                                              // completed steps
  virtual int64_t updates() const = 0;  // and the updates among them
};

// Of a directory of another system; `config` is the model's config.json. Refuses states that are not whole; nullptr:
// the directory is of no system whose states are read.
std::unique_ptr<StoredStates> OpenStoredStates(const std::filesystem::path& directory,
                                               const std::filesystem::path& config);

}  // namespace trireme
