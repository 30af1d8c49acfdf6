// Assumptions: what software does that no layout says: precision of products, which kernels are fused, what is hidden
// behind computation, how uneven experts are loaded. The defaults are this program's own; published runs of others name
// theirs.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct Assumptions {
  bool fp8 = false;             // products of the layers in FP8
  bool fused_attention = true;  // otherwise all scores are written to memory
  bool fused_rest = true;       // otherwise each elementwise operation is a kernel
  bool chunked_logits = true;   // otherwise all of them are in memory: once as computed, three times in fp32
  bool saves_operators = true;  // in selective recomputation; otherwise attention and every second matmul's output
  double tensor_overlap = 0;    // share of the tensor-parallel exchanges that products hide
  double expert_overlap = 0;    // of the experts' exchanges
  double data_overlap = 1;      // of the data-parallel ones, as far as there is computation beside them
  double imbalance = 1;         // rows of the busiest rank's experts over the mean
  double gradient_bytes = 4;    // per gradient that is reduced
};

// "imbalance=1.2", "precision=fp8", …: refused by name where unknown.
Assumptions ParseAssumptions(const std::vector<std::string>& items);

// The names, with their meaning, for help.
std::string AssumptionNames();

}  // namespace trireme
