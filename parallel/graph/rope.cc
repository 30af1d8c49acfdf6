#include "parallel/graph/rope.h"

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

// Dynamic NTK: the base grows with what exceeds the limit, so that the slowest pair turns `factor` times slower per
// limit.
double ThetaOf(const RopeSpec& rope, int64_t length) {
  if (rope.scaling != RopeSpec::Scaling::kDynamic || length <= rope.longest_positions) return rope.theta;
  const double ratio = static_cast<double>(length) / static_cast<double>(rope.longest_positions);
  const auto dim = static_cast<double>(rope.rotary_dim);
  return rope.theta * std::pow(rope.factor * ratio - (rope.factor - 1), dim / (dim - 2));
}

double Scaled(const RopeSpec& rope, double frequency, int64_t pair, int64_t length) {
  switch (rope.scaling) {
    case RopeSpec::Scaling::kNone:
    case RopeSpec::Scaling::kDynamic:
      return frequency;
    case RopeSpec::Scaling::kLinear:
      return frequency / rope.factor;
    case RopeSpec::Scaling::kLlama3:
      return Llama3Scaled(rope, frequency);
    case RopeSpec::Scaling::kYarn:
      return YarnScaled(rope, frequency, pair);
    case RopeSpec::Scaling::kLongrope:
      return frequency /
             (length > rope.original_positions ? rope.long_factors : rope.short_factors).at(static_cast<size_t>(pair));
  }
  return frequency;
}

}  // namespace

int64_t LengthLimit(const RopeSpec& rope) {
  if (rope.scaling == RopeSpec::Scaling::kDynamic) return rope.longest_positions;
  return rope.scaling == RopeSpec::Scaling::kLongrope ? rope.original_positions : 0;
}

int64_t LengthClass(const RopeSpec& rope, int64_t length) {
  const int64_t limit = LengthLimit(rope);
  if (limit == 0 || length <= limit) return 0;
  return rope.scaling == RopeSpec::Scaling::kLongrope ? 1 : length - limit;
}

std::vector<double> InverseFrequencies(const RopeSpec& rope, int64_t length) {
  const double theta = ThetaOf(rope, length);
  std::vector<double> frequencies;
  for (int64_t pair = 0; pair < rope.rotary_dim / 2; ++pair) {
    const double exponent = static_cast<double>(2 * pair) / static_cast<double>(rope.rotary_dim);
    frequencies.push_back(Scaled(rope, std::pow(theta, -exponent), pair, length));
  }
  return frequencies;
}

std::vector<double> InverseFrequencies(const RopeSpec& rope) { return InverseFrequencies(rope, 0); }

const RopeSpec* LengthDependentRope(const LayerGraph& graph) {
  for (const Layer& layer : graph.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder != nullptr && LengthLimit(decoder->attention.rope) > 0) return &decoder->attention.rope;
  }
  return nullptr;
}

}  // namespace trireme
