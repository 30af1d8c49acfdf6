#include "train/rollouts/rollout_file.h"

#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "data/image_marks.h"
#include "data/image_tokens.h"
#include "data/model_images.h"
#include "data/record_fields.h"
#include "data/records.h"
#include "data/row_keys.h"
#include "generation/text/prompts.h"

namespace trireme {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<int64_t> TokensAt(const Json& record, const char* key, int64_t vocabulary) {
  if (!Has(record, key))
    throw InputError("has no ", key, "; it has ", KeysOf(record), ". Wanted prompt_ids and completion_ids");
  const std::vector<int32_t> ids = IdsAt(record, key);
  if (ids.empty()) throw InputError(key, " is empty; wanted at least one token");
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary) {
      throw InputError(key, " has ", id, "; the model's vocabulary has ", vocabulary, " tokens");
    }
  }
  return {ids.begin(), ids.end()};
}

double NumberOrNone(const Json& value, const std::string& what) {
  if (value.is_null()) return kNone;
  constexpr double kLargest = 1e15;  // its square fits in fp32
  if (value.is_number() && std::abs(value.get<double>()) <= kLargest) return value.get<double>();
  throw InputError(what, " is ", JsonLine(value), "; wanted a number of at most 1e15 in size, or null for none");
}

std::vector<float> LogProbsAt(const Json& record, const char* key, size_t tokens) {
  const Json& values = record.at(key);
  if (!values.is_array() || values.size() != tokens) {
    throw InputError(key, " has ", values.is_array() ? values.size() : 0, " numbers for ", tokens,
                     " tokens of completion_ids");
  }
  std::vector<float> log_probs;
  for (const Json& value : values) {
    const double number = NumberOrNone(value, key);
    if (number > 0) throw InputError(key, " has ", number, "; wanted logarithms of probabilities, at most 0");
    log_probs.push_back(static_cast<float>(number));
  }
  return log_probs;
}

std::vector<bool> MaskAt(const Json& record, size_t tokens) {
  const Json& values = record.at("env_mask");
  if (!values.is_array() || values.size() != tokens) {
    throw InputError("env_mask has ", values.is_array() ? values.size() : 0, " numbers for ", tokens,
                     " tokens of completion_ids");
  }
  std::vector<bool> written;
  for (const Json& value : values) {
    if (value != 0 && value != 1)
      throw InputError("env_mask has ", JsonLine(value), "; wanted 1 for tokens of the model, 0 for others");
    written.push_back(value == 1);
  }
  return written;
}

int64_t CountAt(const Json& record, const char* key) {
  const Json& value = record.at(key);
  if (value.is_number_integer() && value.get<int64_t>() >= 0) return value.get<int64_t>();
  throw InputError(key, " is ", JsonLine(value), "; wanted a number of 0 or more");
}

// Those of a prompt, whose placeholders are as many as they have tokens.
std::shared_ptr<const std::vector<RowImage>> ImagesOf(const Json& record, const std::vector<int64_t>& prompt,
                                                      const RolloutReading& reading) {
  std::vector<std::string> sources = ListedImages(record);
  if (!reading.images) {
    if (sources.empty()) return nullptr;
    throw InputError("has images, but the model has no vision tower, or no settings of its image processor");
  }
  const std::vector<int32_t> ids(prompt.begin(), prompt.end());
  auto images = FindPromptImages(ResolvedImages(std::move(sources), reading.folder), *reading.images, ids);
  return images.empty() ? nullptr : std::make_shared<const std::vector<RowImage>>(std::move(images));
}

Rollout RolloutOf(const Json& record, const RolloutReading& reading) {
  if (!record.is_object()) throw InputError("is no object; wanted prompt_ids, completion_ids and rewards");
  // The last ones are results, which a run writes and computes anew.
  RefuseOtherKeys(
      record,
      {"prompt_ids", "completion_ids", "prompt",           "completion",  "step",     "weights_step", "group",
       "logprobs",   "old_logprobs",   "env_mask",         "advantage",   "rewards",  "truncated",    "token_rewards",
       "values",     "returns",        "token_advantages", "data_source", "solution", "images"});
  Rollout rollout{.prompt_ids = TokensAt(record, "prompt_ids", reading.vocabulary),
                  .completion_ids = TokensAt(record, "completion_ids", reading.vocabulary)};
  rollout.images = ImagesOf(record, rollout.prompt_ids, reading);
  if (Has(record, "step")) rollout.step = CountAt(record, "step");
  if (Has(record, "weights_step")) rollout.weights_step = CountAt(record, "weights_step");
  rollout.group = Has(record, "group") ? CountAt(record, "group") : -1;
  for (const char* key : {"logprobs", "old_logprobs"}) {
    if (Has(record, key)) rollout.log_probs = LogProbsAt(record, key, rollout.completion_ids.size());
  }
  if (Has(record, "env_mask")) rollout.written = MaskAt(record, rollout.completion_ids.size());
  if (Has(record, "prompt") && record.at("prompt").is_string()) rollout.prompt = record.at("prompt");
  if (Has(record, "completion") && record.at("completion").is_string()) rollout.completion = record.at("completion");
  if (Has(record, "advantage")) rollout.advantage = NumberOrNone(record.at("advantage"), "advantage");
  if (Has(record, "rewards")) {
    const Json& rewards = record.at("rewards");
    if (!rewards.is_object())
      throw InputError("rewards is ", JsonLine(rewards), "; wanted an object of numbers by name");
    for (const auto& [name, value] : rewards.items()) rollout.rewards[name] = NumberOrNone(value, "reward " + name);
  }
  if (Has(record, "truncated") && !record.at("truncated").is_boolean()) {
    throw InputError("truncated is ", JsonLine(record.at("truncated")), "; wanted true or false");
  }
  rollout.truncated = Has(record, "truncated") ? record.at("truncated").get<bool>()
                                               : !reading.ends.contains(rollout.completion_ids.back());
  return rollout;
}

// Where a line does not state its group, a prompt that differs from the one before begins one.
void AddToGroups(Rollout rollout, std::vector<Rollout>& rollouts) {
  if (rollout.group < 0) {
    const Rollout* before = rollouts.empty() ? nullptr : &rollouts.back();
    const bool same = before != nullptr && before->step == rollout.step && before->prompt_ids == rollout.prompt_ids;
    rollout.group = before == nullptr ? 0 : before->group + (same ? 0 : 1);
  }
  rollouts.push_back(std::move(rollout));
}

}  // namespace

std::string ToJsonLine(const Rollout& rollout) { return JsonLine(ToJson(rollout)); }

Json ToJson(const Rollout& rollout) {
  Json rewards = Json::object();
  for (const auto& [name, value] : rollout.rewards) rewards[name] = std::isnan(value) ? Json() : Json(value);
  Json line = {{"step", rollout.step},
               {"group", rollout.group},
               {"prompt", rollout.prompt},
               {"completion", rollout.completion},
               {"prompt_ids", rollout.prompt_ids},
               {"completion_ids", rollout.completion_ids},
               {"logprobs", rollout.log_probs},
               {"rewards", rewards}};
  if (rollout.images) {
    line["images"] = Json::array();
    for (const RowImage& image : *rollout.images) line["images"].push_back(image.source);
  }
  if (!rollout.written.empty()) {
    line["env_mask"] = Json::array();
    for (const bool written : rollout.written) line["env_mask"].push_back(written ? 1 : 0);
  }
  if (rollout.advantage) line["advantage"] = *rollout.advantage;
  line["truncated"] = rollout.truncated;
  if (rollout.weights_step >= 0) line["weights_step"] = rollout.weights_step;
  if (!rollout.tokens.values.empty()) {
    line["token_rewards"] = rollout.tokens.rewards;
    line["values"] = rollout.tokens.values;
    line["returns"] = rollout.tokens.returns;
    line["token_advantages"] = rollout.tokens.advantages;
  }
  return line;
}

RolloutReading ReadingFor(const Config& config, int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .ends = EndTokens(config.model().path(), nullptr),
          .images = ImageReaderOf(config.model())};
}

std::vector<Rollout> ReadRollouts(const std::filesystem::path& path, const RolloutReading& given) {
  RolloutReading reading = given;
  reading.folder = path.parent_path();
  const std::unique_ptr<RecordFile> records = OpenRecords(path);
  std::vector<Rollout> rollouts;
  for (int64_t i = 0; i < records->size(); ++i) {
    AddToGroups(UseRecord(*records, i, [&](const Json& record) { return RolloutOf(record, reading); }), rollouts);
  }
  if (rollouts.empty()) throw InputError(path.string(), ": has no rollouts");
  return rollouts;
}

std::vector<Rollout> ParseRollouts(const std::string& text, const std::filesystem::path& path,
                                   const RolloutReading& given) {
  RolloutReading reading = given;
  reading.folder = path.parent_path();
  std::vector<Rollout> rollouts;
  std::istringstream lines(text);
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      AddToGroups(RolloutOf(TryParseJson(line), reading), rollouts);
    } catch (const std::exception& error) {
      throw InputError(path.string(), ":", number, ": ", error.what());
    }
  }
  if (rollouts.empty()) throw InputError(path.string(), ": has no rollouts");
  return rollouts;
}

}  // namespace trireme
