#include "parallel/graph/specs.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

// Long wavelengths are stretched by the factor, short ones unchanged, those in between interpolated by how
// often they fit into the original context length.
double Llama3Scaled(const RopeSpec& rope, double frequency) {
  const double wavelength = 2.0 * M_PI / frequency;
  const double turns = static_cast<double>(rope.original_positions) / wavelength;
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  if (turns > rope.high_freq_factor) return frequency;
  const double smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
}

// The pair that rotates `turns` times within the original positions.
double YarnPair(const RopeSpec& rope, double turns) {
  const double positions = static_cast<double>(rope.original_positions);
  return static_cast<double>(rope.rotary_dim) * std::log(positions / (turns * 2.0 * M_PI)) /
         (2.0 * std::log(rope.theta));
}

double YarnScaled(const RopeSpec& rope, double frequency, int64_t pair) {
  double low = YarnPair(rope, rope.beta_fast), high = YarnPair(rope, rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(rope.rotary_dim - 1));
  if (low == high) high += 0.001;
  const double stretched = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return stretched * frequency / rope.factor + (1.0 - stretched) * frequency;
}

}  // namespace

const DecoderSpec* DecoderOf(const LayerSpec& spec) {
  const auto* mtp = std::get_if<MtpSpec>(&spec);
  return mtp != nullptr ? &mtp->decoder : std::get_if<DecoderSpec>(&spec);
}

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
      case RopeSpec::Scaling::kYarn:
        frequencies.push_back(YarnScaled(rope, frequency, pair));
        break;
    }
  }
  return frequencies;
}

}  // namespace trireme
