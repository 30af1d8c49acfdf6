#include "serve/service_events.h"

namespace trireme {

Json SamplingJson(const Sampling& s) {
  Json bias = Json::array();
  for (const auto& [token, value] : s.bias) bias.push_back({token, value});
  return {{"t", s.temperature},
          {"k", s.top_k},
          {"p", s.top_p},
          {"m", s.min_p},
          {"presence", s.presence_penalty},
          {"frequency", s.frequency_penalty},
          {"repetition", s.repetition_penalty},
          {"bias", bias},
          {"least", s.min_tokens},
          {"ends", s.ends},
          {"seed", s.seed}};
}

Sampling SamplingOfJson(const Json& j) {
  Sampling s{.temperature = j["t"],
             .top_k = j["k"],
             .top_p = j["p"],
             .min_p = j["m"],
             .presence_penalty = j["presence"],
             .frequency_penalty = j["frequency"],
             .repetition_penalty = j["repetition"],
             .min_tokens = j["least"],
             .ends = j["ends"].get<std::set<int64_t>>(),
             .seed = j["seed"]};
  for (const Json& pair : j["bias"]) s.bias[pair[0].get<int64_t>()] = pair[1];
  return s;
}

std::string Service::Events::Text() const {
  if (ends.empty() && adds.empty() && changes.empty() && !stop && work.empty()) return waits ? "w" : "";
  return JsonLine({{"ends", ends},
                   {"adds", adds},
                   {"changes", changes},
                   {"stop", stop},
                   {"work", work.size()},
                   {"pixels", pixels.size()}});
}

// One small broadcast; a process that runs alone tells nobody.
Service::Events Service::Exchange(Events mine) {
  if (job_.world() == 1) return mine;
  std::string text = mine.Text();
  uint64_t size = text.size();
  job_.BroadcastBytes(&size, sizeof(size));
  text.resize(size);
  if (size > 0) job_.BroadcastBytes(text.data(), size);
  if (job_.rank() == 0) {
    if (!mine.work.empty()) job_.BroadcastBytes(mine.work.data(), mine.work.size());
    if (!mine.pixels.empty()) job_.BroadcastBytes(mine.pixels.data(), mine.pixels.size());
    return mine;
  }
  Events told;
  told.waits = text == "w";
  if (text.size() < 2) return told;
  const Json json = Json::parse(text);
  told.ends = json["ends"].get<std::vector<int64_t>>();
  told.adds = json["adds"];
  told.changes = json["changes"];
  told.stop = json["stop"];
  told.work.resize(json["work"].get<size_t>());
  if (!told.work.empty()) job_.BroadcastBytes(told.work.data(), told.work.size());
  told.pixels.resize(json["pixels"].get<size_t>());
  if (!told.pixels.empty()) job_.BroadcastBytes(told.pixels.data(), told.pixels.size());
  return told;
}

}  // namespace trireme
