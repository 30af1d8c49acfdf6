// The rotary embedding that a config.json describes, in rope_parameters (transformers 5) or rope_theta and rope_scaling
// (4). What the numbers mean is parallel/graph/rope.
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "models/hf_config.h"

namespace trireme {
namespace {

constexpr char kOriginal[] = "original_max_position_embeddings";
constexpr char kLongest[] = "max_position_embeddings";
constexpr char kPartial[] = "partial_rotary_factor";

double YarnMagnitude(double factor, double scale) { return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0; }

double LongropeMagnitude(double factor, int64_t original) {
  return factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original)));
}

// Phi-3's first files call longrope so.
bool IsLongrope(const std::string& kind, bool phi3) {
  return kind == "longrope" || (phi3 && (kind == "su" || kind == "yarn"));
}

}  // namespace

double HfConfig::YarnScoreScale() const {
  const char* key = Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!Has(key)) return 1;
  const HfConfig scaling(*Find(key), source_ + ": " + key);
  const double all_dim = scaling.Number("mscale_all_dim", 0);
  const double magnitude = all_dim == 0 ? 1 : YarnMagnitude(scaling.Number("factor", 1), all_dim);
  return magnitude * magnitude;
}

double HfConfig::RotaryFactor(double fallback) const {
  double factor = Number(kPartial, fallback);
  if (Has("rope_parameters")) factor = Within("rope_parameters").Number(kPartial, factor);
  if (factor <= 0 || factor > 1) Refuse(kPartial, Concat("is ", factor, "; wanted above 0 and at most 1"));
  return factor;
}

std::optional<int64_t> HfConfig::LongestSequence() const {
  if (!Has(kLongest)) return std::nullopt;
  const int64_t longest = Size(kLongest);
  const char* key = Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!Has(key) || !Find(key)->is_object()) return longest;
  const HfConfig scaling = Within(key);
  const char* kind_key = scaling.Has("rope_type") ? "rope_type" : "type";
  const bool grows = scaling.Has(kind_key) && scaling.Text(kind_key) == "dynamic" && !scaling.Has("alpha");
  return grows ? std::llround(static_cast<double>(longest) * std::max(scaling.Number("factor", 1), 1.0)) : longest;
}

RopeSpec HfConfig::Rope(int64_t rotary_dim, const RopeTraits& traits) const {
  RopeSpec rope{.theta = Number("rope_theta", traits.theta), .rotary_dim = rotary_dim, .original_positions = 0};
  rope.longest_positions = std::max<int64_t>(WholeNumber(kLongest).value_or(0), 0);
  if (traits.phi3) rope.original_positions = Size(kOriginal, kPhi3Positions);
  const char* key = Find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  if (Find(key) == nullptr) return rope;
  return Within(key).RopeHere(rope, traits);
}

RopeSpec HfConfig::RopeHere(RopeSpec rope, const RopeTraits& traits) const {
  Only(kPartial, traits.factor);
  if (traits.sections) Unused({"mrope_section", "mrope_interleaved"});
  rope.theta = Number("rope_theta", rope.theta);
  const char* kind_key = Find("rope_type") != nullptr ? "rope_type" : "type";
  if (Find("rope_type") != nullptr) Unused({"type"});  // its older name, which transformers writes beside it
  const std::string kind = Find(kind_key) == nullptr ? "default" : Text(kind_key);
  if (IsLongrope(kind, traits.phi3)) {
    ReadLongrope(rope);
  } else if (kind == "default") {
    // Phi-3's files name the length beside and within, with and without longrope.
    if (traits.phi3) Unused({kOriginal});
  } else if (traits.phi3) {
    throw InputError(source_, " has the type '", kind, "'; wanted default or longrope");
  } else {
    ReadScaling(kind, rope, traits);
  }
  RefuseUnread();
  return rope;
}

void HfConfig::ReadScaling(const std::string& kind, RopeSpec& rope, const RopeTraits& traits) const {
  rope.factor = Number("factor", 1.0);
  if (kind == "linear") {
    rope.scaling = RopeSpec::Scaling::kLinear;
  } else if (kind == "llama3") {
    rope.scaling = RopeSpec::Scaling::kLlama3;
    rope.low_freq_factor = Number("low_freq_factor", 1.0);
    rope.high_freq_factor = Number("high_freq_factor", 4.0);
    rope.original_positions = Size(kOriginal);
  } else if (kind == "yarn") {
    ReadYarn(rope);
  } else if (kind == "dynamic" && traits.ntk_alpha && Number("alpha", 0) > 0) {
    const auto dim = static_cast<double>(rope.rotary_dim);
    rope.theta *= std::pow(Number("alpha", 1), dim / (dim - 2));
    rope.factor = 1;
    Unused({"beta_fast", "beta_slow", "mscale", "mscale_all_dim"});
  } else if (kind == "dynamic" && !traits.ntk_alpha) {
    ReadDynamic(rope);
  } else {
    throw InputError(source_, " has the type '", kind, "'; wanted default, linear, dynamic, llama3, yarn or longrope");
  }
}

void HfConfig::ReadYarn(RopeSpec& rope) const {
  rope.scaling = RopeSpec::Scaling::kYarn;
  rope.original_positions = Size(kOriginal);
  rope.beta_fast = Number("beta_fast", 32);
  rope.beta_slow = Number("beta_slow", 1);
  rope.truncate = Flag("truncate", true);
  const double mscale = Number("mscale", 0), all_dim = Number("mscale_all_dim", 0);
  const double magnitude = mscale != 0 && all_dim != 0
                               ? YarnMagnitude(rope.factor, mscale) / YarnMagnitude(rope.factor, all_dim)
                               : YarnMagnitude(rope.factor, 1);
  rope.magnitude = Number("attention_factor", magnitude);
}

void HfConfig::ReadDynamic(RopeSpec& rope) const {
  rope.scaling = RopeSpec::Scaling::kDynamic;
  if (!Has("factor") || rope.factor < 1) {
    throw InputError(source_, ": factor is ", Has("factor") ? Concat(rope.factor) : "missing",
                     "; the type 'dynamic' needs a number of at least 1");
  }
  if (rope.longest_positions == 0) {
    throw InputError(
        source_,
        " has the type 'dynamic', which needs max_position_embeddings, and one rotary embedding for all layers");
  }
  if (rope.rotary_dim < 4)
    throw InputError(source_, " has the type 'dynamic' for heads of ", rope.rotary_dim,
                     " rotated elements; wanted 4 or more");
}

// The length beside rope_parameters counts first, then that within, then the model's longest.
void HfConfig::ReadLongrope(RopeSpec& rope) const {
  rope.scaling = RopeSpec::Scaling::kLongrope;
  const int64_t within = Size(kOriginal, std::max<int64_t>(rope.longest_positions, 1));
  if (rope.original_positions == 0) rope.original_positions = within;
  if (rope.longest_positions == 0) {
    throw InputError(
        source_,
        " has the type 'longrope', which needs max_position_embeddings, and one rotary embedding for all layers");
  }
  rope.factor =
      Number("factor", static_cast<double>(rope.longest_positions) / static_cast<double>(rope.original_positions));
  rope.magnitude = Number("attention_factor", LongropeMagnitude(rope.factor, rope.original_positions));
  for (const auto& [key, factors] :
       {std::pair("short_factor", &rope.short_factors), std::pair("long_factor", &rope.long_factors)}) {
    *factors = Numbers(key);
    const bool positive = std::ranges::all_of(*factors, [](double factor) { return factor > 0; });
    if (std::ssize(*factors) == rope.rotary_dim / 2 && positive) continue;
    throw InputError(source_, ": ", key, " has ", factors->size(), " numbers; wanted ", rope.rotary_dim / 2,
                     " above 0, one for each pair of rotated elements");
  }
}

}  // namespace trireme
