#include "parallel/layers/mlp.h"

#include "ops/swiglu.h"
#include "parallel/layers/bias.h"

namespace trireme {

MlpBlock::MlpBlock(const std::string& role, const Weights& weights, const TensorParallel& parallel,
                   bool recompute)
    : parallel_(parallel),
      recompute_(recompute),
      gate_up_(weights.Find(role + ".gate_up.weight")),
      gate_up_bias_(weights.FindOrNull(role + ".gate_up.bias")),
      down_(weights.Find(role + ".down.weight")),
      down_bias_(weights.FindOrNull(role + ".down.bias")) {}

LinearInput MlpBlock::Up(const LinearInput& x) const {
  const at::Tensor gate_up = Linear(x, gate_up_, gate_up_bias_);
  LinearInput activated(SwiGlu(gate_up));
  if (recompute_) {
    activated.again = [gate_up = gate_up.detach()] {
      const at::NoGradGuard no_graph;
      return SwiGlu(gate_up);
    };
  }
  return activated;
}

at::Tensor MlpBlock::Down(const LinearInput& activated) const {
  return AddBias(Leave(Linear(activated, down_), parallel_), down_bias_);
}

}  // namespace trireme
