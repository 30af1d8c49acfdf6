// PendingSums: named sums of a pass on their way to the host. The reduction over all ranks is under way on
// the device; Take waits for it. A caller that waits for a later call of the same communicator anyway takes
// them after that, for free.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/pass/pass_result.h"
#include "parallel/tensor/collectives.h"

namespace trireme {

// What every rank adds from its device, whether it speaks or not.
struct RankNumbers {
  std::map<std::string, at::Tensor> summed = {};  // scalars, by name; undefined: 0
  at::Tensor own = {};  // [any] fp32: not summed, only copied to the host together with the sums
};

class PendingSums {
 public:
  // As PassResult::ReduceSums, which starts and takes them at once; with the numbers of this rank. Collective.
  PendingSums(const PassResult& result, std::vector<std::string> names, bool speaks, const NamedSums& extra,
              Communicator& world, at::Device device, const RankNumbers& numbers = {});

  NamedSums Take();                                       // once
  const std::vector<float>& own() const { return own_; }  // after it

 private:
  std::vector<std::string> names_;
  at::Tensor all_;  // [names + own] fp32
  std::vector<float> own_;
  Pending reduction_;
};

}  // namespace trireme
