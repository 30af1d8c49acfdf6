// AveragedWeights: replaces a checkpoint's weights by their averages (optimizer.ema) when it becomes a Hugging Face
// directory. What was not trained stays as it is. No torch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/convert.h"
#include "parallel/graph/graph.h"

namespace trireme {

class AveragedWeights : public TensorChange {
 public:
  // Of a checkpoint of ours that has averages; both outlive it.
  AveragedWeights(const HfDirectory& checkpoint, const LayerGraph& graph);

  bool Changes(const std::string& name) const override;
  void Apply(const std::string& name, std::vector<float>& values) const override;

 private:
  std::string KeyOf(const std::string& name) const;

  StoreReader& store_;
  std::map<std::string, std::string> name_of_;  // of further copies of a tensor
};

}  // namespace trireme
