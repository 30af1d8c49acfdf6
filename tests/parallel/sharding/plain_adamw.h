// The reference: torch's own AdamW on whole parameters in one process, with its headers hidden.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>

namespace trireme {

struct PlainOptions {
  double learning_rate, beta1, beta2, eps, weight_decay;
};

class PlainAdamW {
 public:
  // Clones its arguments. Parameters of fewer than two dims have no weight decay.
  PlainAdamW(const std::map<std::string, at::Tensor>& values, const PlainOptions& options);
  ~PlainAdamW();

  void Step(const std::map<std::string, at::Tensor>& gradients);
  at::Tensor value(const std::string& name) const;
  at::Tensor exp_avg(const std::string& name) const;
  at::Tensor exp_avg_sq(const std::string& name) const;

 private:
  struct Torch;
  std::unique_ptr<Torch> torch_;
};

}  // namespace trireme
