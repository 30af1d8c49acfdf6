#include "session/rope_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <vector>

#include "checkpoint/manifest.h"
#include "core/base/error.h"
#include "core/config/unused_keys.h"
#include "core/io/atomic_file.h"
#include "core/io/digest.h"
#include "models/families.h"
#include "session/derived_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr char kRopeFormat[] = "rope 1";  // a change of what is written changes this
constexpr char kLongestKey[] = "max_position_embeddings", kOriginalKey[] = "original_max_position_embeddings";

struct KindName {
  RopeKind kind;
  const char* name;
  RopeSpec::Scaling scaling;
};
constexpr std::array<KindName, 5> kKinds = {{{ROPE_PLAIN, "default", RopeSpec::Scaling::kNone},
                                             {ROPE_LINEAR, "linear", RopeSpec::Scaling::kLinear},
                                             {ROPE_DYNAMIC, "dynamic", RopeSpec::Scaling::kDynamic},
                                             {ROPE_YARN, "yarn", RopeSpec::Scaling::kYarn},
                                             {ROPE_LLAMA3, "llama3", RopeSpec::Scaling::kLlama3}}};

const KindName& NameOf(RopeKind kind) {
  return *std::ranges::find_if(kKinds, [&](const KindName& known) { return known.kind == kind; });
}

bool Scales(const RopeConfig& rope) { return rope.kind() != ROPE_MODEL && rope.kind() != ROPE_PLAIN; }

void CheckRope(const Config& config) {
  RefuseUnusedKeys(config, "model.rope.");
  const RopeConfig& rope = config.model().rope();
  if (Scales(rope) && rope.factor() != 0 && rope.factor() < 1) {
    throw InputError("model.rope.factor = ", rope.factor(), ", and model.rope.kind is ", NameOf(rope.kind()).name,
                     "; set how many times longer sequences may become, a number of at least 1, or leave it out for ",
                     "what data.max_length needs");
  }
  if (rope.beta_fast() <= rope.beta_slow()) {
    throw InputError("model.rope.beta_fast = ", rope.beta_fast(), " is not above beta_slow = ", rope.beta_slow());
  }
}

// What another rotary embedding may replace: the rest is the model's own, and of its attention, too.
void CheckReplaceable(const Json& before, const std::string& source) {
  constexpr std::array<std::string_view, 12> kKnown = {"rope_type",        "type",
                                                       "rope_theta",       "factor",
                                                       kOriginalKey,       "low_freq_factor",
                                                       "high_freq_factor", "attention_factor",
                                                       "beta_fast",        "beta_slow",
                                                       "truncate",         "partial_rotary_factor"};
  for (const auto& [key, value] : before.items()) {
    if (value.is_null() || std::ranges::find(kKnown, key) != kKnown.end()) continue;
    throw InputError("model.rope: the rotary embedding in ", source, " has '", key,
                     "', which no other can replace; leave out model.rope.kind");
  }
}

Json ScalingOf(const RopeConfig& rope, int64_t original) {
  Json scaling = {{"rope_type", NameOf(rope.kind()).name}};
  if (!Scales(rope)) return scaling;
  scaling["factor"] = rope.factor();
  if (rope.kind() == ROPE_LLAMA3) scaling.update({{"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}});
  if (rope.kind() == ROPE_YARN) {
    scaling.update({{"beta_fast", rope.beta_fast()}, {"beta_slow", rope.beta_slow()}});
    if (rope.attention_factor() > 0) scaling["attention_factor"] = rope.attention_factor();
  }
  if (rope.kind() == ROPE_LLAMA3 || rope.kind() == ROPE_YARN) scaling[kOriginalKey] = original;
  return scaling;
}

// Whether the scaling is there already: a run's own result has it.
bool HasScaling(const Json& before, Json wanted, const RopeConfig& rope) {
  if (rope.original_length() == 0) wanted.erase(kOriginalKey);
  return std::ranges::all_of(wanted.items(), [&](const auto& item) {
    return before.contains(item.key()) && before[item.key()] == item.value();
  });
}

const char* ScalingKey(const Json& model) {
  return model.contains("rope_parameters") && !model["rope_parameters"].is_null() ? "rope_parameters" : "rope_scaling";
}

Json ScalingIn(const Json& model) {
  const auto found = model.find(ScalingKey(model));
  return found != model.end() && found->is_object() ? *found : Json::object();
}

// The length that the model was trained for, also where its longest sequences are scaled already.
double OriginalLength(const Json& model, const RopeConfig& rope, const std::string& source) {
  const Json before = ScalingIn(model);
  if (rope.original_length() > 0) return static_cast<double>(rope.original_length());
  if (before.contains(kOriginalKey)) return HfConfig(before, source).Number(kOriginalKey, 0);
  const auto longest = static_cast<double>(HfConfig(model, source).WholeNumber(kLongestKey).value_or(0));
  const bool scaled = before.contains("factor") && before.value("rope_type", before.value("type", "")) != "dynamic";
  return scaled ? longest / before["factor"].get<double>() : longest;
}

// Without a factor: as many times longer as data.max_length needs.
RopeConfig WithFactor(RopeConfig rope, const Json& model, int64_t max_length, const std::string& source) {
  if (!Scales(rope) || rope.factor() > 0) return rope;
  const double original = OriginalLength(model, rope, source);
  if (original < 1) return rope;  // SetScaling says so
  if (static_cast<double>(max_length) <= original) {
    throw InputError("model.rope.kind = ", NameOf(rope.kind()).name,
                     " without model.rope.factor: data.max_length = ", max_length, " is no longer than the ", original,
                     " tokens that ", source, " is made for; set the factor, or leave model.rope out");
  }
  rope.set_factor(std::ceil(static_cast<double>(max_length) / original));
  return rope;
}

void SetScaling(Json& model, const RopeConfig& rope, const std::string& source) {
  const char* key = ScalingKey(model);
  const Json before = ScalingIn(model);
  const int64_t longest = HfConfig(model, source).WholeNumber(kLongestKey).value_or(0);
  const int64_t original = rope.original_length() > 0 ? rope.original_length() : longest;
  if (Scales(rope) && original < 1) {
    throw InputError("model.rope.original_length is not set, and ", source, " has no ", kLongestKey, "; set it");
  }
  Json after = ScalingOf(rope, original);
  if (HasScaling(before, after, rope)) return;
  CheckReplaceable(before, source);
  for (const char* kept : {"rope_theta", "partial_rotary_factor"}) {
    if (before.contains(kept)) after[kept] = before[kept];
  }
  model[key] = after;
  if (rope.kind() == ROPE_DYNAMIC) model[kLongestKey] = original;  // beyond it the base grows
  if (Scales(rope) && rope.kind() != ROPE_DYNAMIC) {
    model[kLongestKey] = std::llround(rope.factor() * static_cast<double>(original));
  }
}

void SetTheta(Json& model, double theta) {
  const bool within = model.contains("rope_parameters") && model["rope_parameters"].is_object();
  Json& place = within ? model["rope_parameters"] : model;
  if (!place.contains("rope_theta") || place["rope_theta"] != theta) place["rope_theta"] = theta;
}

// A model with rotary embeddings of several kinds would have taken the values in some layers only.
void CheckTaken(const Json& model, const RopeConfig& rope, const std::string& source) {
  const LayerGraph graph = BuildGraph(HfConfig(model, source));
  for (const Layer& layer : graph.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder == nullptr) continue;
    const RopeSpec& taken = decoder->attention.rope;
    const bool scaled = rope.kind() == ROPE_MODEL || taken.scaling == NameOf(rope.kind()).scaling;
    if (scaled && (rope.theta() == 0 || taken.theta == rope.theta())) continue;
    throw InputError("model.rope: ", source, " is of ", graph.family,
                     ", whose layers have rotary embeddings of their own (", layer.name,
                     "); leave it out, or change config.json itself");
  }
}

void WriteLinked(const fs::path& from, const std::string& config, const fs::path& to) {
  AtomicFile file(to / "config.json");
  file.Write(config.data(), config.size());
  file.Commit();
  for (const auto& entry : fs::directory_iterator(from)) {
    if (entry.path().filename() == "config.json" || !entry.is_regular_file()) continue;
    std::error_code error;
    fs::create_symlink(fs::absolute(entry.path()), to / entry.path().filename(), error);
    if (error) throw RuntimeError(to.string(), ": cannot link to ", entry.path().string(), ": ", error.message());
  }
}

std::string DigestOfLinks(const fs::path& from, const std::string& config) {
  Digest digest;
  digest.Add(kRopeFormat).Add(fs::absolute(from).string()).Add(config);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(from)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  for (const std::string& name : names) digest.Add(name);
  return digest.Hex();
}

}  // namespace

Json WithRope(Json model, const RopeConfig& rope, const std::string& source) {
  const auto nested = model.find("rope_parameters");
  if (nested != model.end() && nested->is_object() &&
      std::ranges::any_of(*nested, [](const Json& value) { return value.is_object(); })) {
    throw InputError("model.rope: ", source,
                     " has rotary embeddings for each kind of layer; leave it out, or change config.json itself");
  }
  if (rope.kind() != ROPE_MODEL) SetScaling(model, rope, source);
  if (rope.theta() > 0) SetTheta(model, rope.theta());
  return model;
}

std::string RopeModel(const Config& config) {
  CheckRope(config);
  const fs::path from = config.model().path();
  const RopeConfig& keys = config.model().rope();
  if (from.empty() || (keys.kind() == ROPE_MODEL && keys.theta() == 0)) return config.model().path();
  const std::string source = (from / "config.json").string();
  const Json before = ReadJsonFile(source);
  const RopeConfig rope = WithFactor(keys, before, config.data().max_length(), source);
  const Json after = WithRope(before, rope, source);
  CheckTaken(after, rope, source);
  if (after == before) return config.model().path();
  if (IsCheckpoint(from)) {
    throw InputError("model.rope: ", from.string(),
                     " is a run's checkpoint, whose rotary embedding cannot change; make a Hugging ",
                     "Face directory of it first: trireme convert --from ", from.string(), " --to DIR");
  }
  const std::string text = after.dump(2) + "\n";
  return DerivedDirectory(config, DigestOfLinks(from, text), "a model with another rotary embedding",
                          [&](const fs::path& folder) { WriteLinked(from, text, folder); });
}

}  // namespace trireme
