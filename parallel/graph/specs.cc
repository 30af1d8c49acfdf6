#include "parallel/graph/specs.h"

namespace trireme {

const DecoderSpec* DecoderOf(const LayerSpec& spec) {
  const auto* mtp = std::get_if<MtpSpec>(&spec);
  return mtp != nullptr ? &mtp->decoder : std::get_if<DecoderSpec>(&spec);
}

const TowerSpec* TowerOf(const LayerSpec& spec) {
  if (const auto* patch = std::get_if<PatchSpec>(&spec)) return &patch->tower;
  if (const auto* vision = std::get_if<VisionSpec>(&spec)) return &vision->tower;
  const auto* merger = std::get_if<MergerSpec>(&spec);
  return merger != nullptr ? &merger->tower : nullptr;
}

// In turns: time, row, column, as long as row and column have pairs left; what remains is time's.
std::vector<int64_t> RotaryAxes(const RopeSpec& rope) {
  std::vector<int64_t> axes;
  if (rope.sections.empty()) return axes;
  for (int64_t pair = 0; pair < rope.rotary_dim / 2; ++pair) {
    if (rope.sections_interleaved) {
      const int64_t turn = pair % 3;
      axes.push_back(turn > 0 && pair < 3 * rope.sections[turn] ? turn : 0);
    } else {
      axes.push_back(pair < rope.sections[0] ? 0 : pair < rope.sections[0] + rope.sections[1] ? 1 : 2);
    }
  }
  return axes;
}

}  // namespace trireme
