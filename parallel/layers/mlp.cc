#include "parallel/layers/mlp.h"

#include "ops/swiglu/swiglu.h"
#include "parallel/layers/bias.h"

namespace trireme {

MlpBlock::MlpBlock(const std::string& role, const Projection::Place& place, const TensorParallel& parallel,
                   bool recompute)
    : parallel_(parallel),
      recompute_(recompute),
      gate_up_(place, role + ".gate_up", {role + ".gate", role + ".up"}),
      gate_up_bias_(place.weights.FindOrNull(place.layer.name + "." + role + ".gate_up.bias")),
      down_(place, role + ".down"),
      down_bias_(place.weights.FindOrNull(place.layer.name + "." + role + ".down.bias")) {}

LinearInput MlpBlock::Up(const LinearInput& x, PassContext& pass) const {
  const at::Tensor gate_up = gate_up_.Forward(x, pass, gate_up_bias_);
  LinearInput activated(SwiGlu(gate_up));
  if (recompute_) {
    activated.again = [gate_up = gate_up.detach()] {
      const at::NoGradGuard no_graph;
      return SwiGlu(gate_up);
    };
  }
  return activated;
}

at::Tensor MlpBlock::Down(const LinearInput& activated, PassContext& pass) const {
  return AddBias(ReduceFromTensorRegion(down_.Forward(activated, pass), parallel_), down_bias_);
}

}  // namespace trireme
