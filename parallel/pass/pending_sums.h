// PendingSums: named sums of a pass on their way to the host. The reduction over all ranks is under way on
// the device; Take waits for it. A caller that waits for a later call of the same communicator anyway takes
// them after that, for free.
#pragma once

#include <string>
#include <vector>

#include "parallel/pass/pass_result.h"
#include "parallel/tensor/collectives.h"

namespace trireme {

class PendingSums {
 public:
  // As PassResult::ReduceSums, which starts and takes them at once. Collective.
  PendingSums(const PassResult& result, std::vector<std::string> names, bool speaks, const NamedSums& extra,
              Communicator& world, at::Device device);

  NamedSums Take();  // once

 private:
  std::vector<std::string> names_;
  at::Tensor all_;  // [names] fp32
  Pending reduction_;
};

}  // namespace trireme
