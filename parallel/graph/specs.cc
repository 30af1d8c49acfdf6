#include "parallel/graph/specs.h"

#include <cmath>

namespace trireme {
namespace {

// Long waves are stretched by the factor, short ones kept, those between blended by how often they fit into
// the context the model was first trained on.
double Llama3Scaled(const RopeSpec& rope, double frequency) {
  const double wavelength = 2.0 * M_PI / frequency;
  const double turns = static_cast<double>(rope.original_positions) / wavelength;
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  if (turns > rope.high_freq_factor) return frequency;
  const double smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<double> InverseFrequencies(const RopeSpec& rope) {
  std::vector<double> frequencies;
  for (int64_t pair = 0; pair < rope.rotary_dim / 2; ++pair) {
    const double exponent = static_cast<double>(2 * pair) / static_cast<double>(rope.rotary_dim);
    const double frequency = std::pow(rope.theta, -exponent);
    switch (rope.scaling) {
      case RopeSpec::Scaling::kNone:
        frequencies.push_back(frequency);
        break;
      case RopeSpec::Scaling::kLinear:
        frequencies.push_back(frequency / rope.factor);
        break;
      case RopeSpec::Scaling::kLlama3:
        frequencies.push_back(Llama3Scaled(rope, frequency));
        break;
    }
  }
  return frequencies;
}

}  // namespace trireme
