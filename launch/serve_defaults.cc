#include "launch/serve_defaults.h"

#include <climits>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"

namespace trireme {
namespace {

// A number that options and generation_config.json may give, with the limits that requests have.
struct NumberDefault {
  const char *option, *key;
  double GenerationDefaults::* member;
  double least, most;
  bool above_least;  // `least` itself is refused
  const char* help;
};

constexpr NumberDefault kNumbers[] = {
    {"temperature", "temperature", &GenerationDefaults::temperature, 0, 2, false, "of sampling; by default 1"},
    {"top-p", "top_p", &GenerationDefaults::top_p, 0, 1, true, "as in requests; by default 1"},
    {"min-p", "min_p", &GenerationDefaults::min_p, 0, 1, false, "as in requests; by default 0"},
    {"presence-penalty", "presence_penalty", &GenerationDefaults::presence_penalty, -2, 2, false,
     "as in requests; by default 0"},
    {"frequency-penalty", "frequency_penalty", &GenerationDefaults::frequency_penalty, -2, 2, false,
     "as in requests; by default 0"},
    {"repetition-penalty", "repetition_penalty", &GenerationDefaults::repetition_penalty, 0, 100, true,
     "as in requests; by default 1"},
};

constexpr char kFile[] = "generation_config.json", kSwitch[] = "generation-config";

double Checked(const NumberDefault& one, double value, const std::string& origin) {
  const bool fits = value >= one.least && value <= one.most && !(one.above_least && value == one.least);
  if (fits) return value;
  throw InputError(origin, ": wanted a number ", one.above_least ? "above " : "from ", one.least,
                   one.above_least ? " and up to " : " to ", one.most);
}

int64_t CheckedCount(const Json& value, int64_t least, const std::string& origin) {
  if (value.is_number_integer() && value >= least && value <= INT_MAX) return value.get<int64_t>();
  throw InputError(origin, ": wanted a whole number of at least ", least);
}

// Hugging Face's generate is greedy where do_sample is false, whatever the temperature is.
void TakeFile(const std::string& directory, GenerationDefaults& defaults) {
  const std::string path = (std::filesystem::path(directory) / kFile).string();
  if (!PathExists(path)) throw InputError("--", kSwitch, ": there is no ", path);
  const Json file = TryParseJson(ReadTextFile(path));
  if (!file.is_object()) throw InputError(path, ": wanted a JSON object");
  const auto given = [&](const char* key) { return file.contains(key) && !file.at(key).is_null(); };
  for (const NumberDefault& one : kNumbers) {
    if (!given(one.key)) continue;
    if (!file.at(one.key).is_number()) throw InputError(path, ": ", one.key, ": wanted a number");
    defaults.*one.member = Checked(one, file.at(one.key).get<double>(), Concat(path, ": ", one.key));
  }
  if (given("top_k")) defaults.top_k = CheckedCount(file.at("top_k"), 0, path + ": top_k");
  if (given("max_new_tokens"))
    defaults.max_tokens = CheckedCount(file.at("max_new_tokens"), 1, path + ": max_new_tokens");
  if (given("do_sample") && file.at("do_sample") == false) defaults.temperature = 0;
}

}  // namespace

std::vector<Option> DefaultsOptions() {
  std::vector<Option> options = {
      {.name = kSwitch,
       .help = "take temperature, top_k, top_p, min_p, repetition_penalty and max_new_tokens from the model's "
               "generation_config.json where a request says nothing; the options below win"},
      {.name = "max-new-tokens",
       .value_name = "N",
       .help = "most tokens of an answer where a request says nothing; by default as many as fit, of "
               "/v1/completions 16"},
      {.name = "top-k",
       .value_name = "K",
       .help = "where a request says nothing: sample from the K most likely tokens only; by default 0: from all"}};
  for (const NumberDefault& one : kNumbers) {
    options.push_back(
        {.name = one.option, .value_name = "X", .help = std::string("where a request says nothing: ") + one.help});
  }
  return options;
}

GenerationDefaults DefaultsOf(const Arguments& arguments, const std::string& directory) {
  GenerationDefaults defaults;
  if (arguments.has(kSwitch)) TakeFile(directory, defaults);
  for (const NumberDefault& one : kNumbers) {
    if (!arguments.has(one.option)) continue;
    const double value = arguments.number(one.option, 0, one.least);
    defaults.*one.member = Checked(one, value, Concat("--", one.option, " ", arguments.value(one.option)));
  }
  defaults.top_k = arguments.integer("top-k", defaults.top_k);
  if (arguments.has("max-new-tokens")) defaults.max_tokens = arguments.integer("max-new-tokens", 0, 1);
  return defaults;
}

}  // namespace trireme
