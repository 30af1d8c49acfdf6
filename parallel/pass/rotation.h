// Rotation: the rotary embedding of a layer: tables of cosine and sine for the tokens of a pass, by their positions, of
// images in three dimensions (M-RoPE), and where the model wants it by the length of their documents. Applying them is
// ops/rotary.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/rotary/rotary.h"
#include "parallel/graph/specs.h"

namespace trireme {

struct PassInput;

class Rotation {
 public:
  explicit Rotation(const RopeSpec& rope);

  RotaryTable TableOf(const PassInput& input) const;
  // Layers with equal keys have equal tables.
  const std::vector<double>& key() const { return key_; }

 private:
  RotaryTable TableByLength(const PassInput& input) const;
  RotaryTable TableByAxes(const PassInput& input) const;

  const RopeSpec rope_;
  const std::vector<double> frequencies_;  // of short sequences
  const std::vector<int64_t> axes_;  // of M-RoPE: which of three positions each pair turns by; empty: there is one
  std::vector<double> key_;
};

}  // namespace trireme
