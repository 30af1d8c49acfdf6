#include "train/rollouts/reward_endpoint.h"

#include "core/base/error.h"

namespace trireme {

std::vector<double> RewardEndpoint::Ask(std::span<const Judged> completions) {
  Json asked = {{"model", "model"}, {"messages", Json::array()}, {"completions", Json::array()}};
  for (const Judged& one : completions) {
    asked["messages"].push_back(one.prompt->text + one.rollout->completion);
    asked["completions"].push_back(QuestionAbout(one));
  }
  const std::string body = JsonLine(asked), who = Concat("the reward endpoint ", options().target);
  const HttpResult result =
      AskHttp(target_, {.body = body, .who = who, .limit = "rl.reward_seconds", .seconds = options().seconds});
  if (result.status != 200) {
    throw RuntimeError(who, " answered with status ", result.reason, ": ", result.body.substr(0, 200));
  }
  const std::string& text = result.body;
  const Json answer = TryParseJson(text);
  const Json scores = answer.is_object() && answer.contains("scores") ? answer.at("scores") : answer;
  const std::string wanted = "{\"scores\": [...]} with a finite number or null for each completion";
  if (!scores.is_array()) throw RuntimeError(who, " answered '", text.substr(0, 80), "'; wanted ", wanted);
  if (scores.size() != completions.size()) {
    throw RuntimeError(who, " answered with ", scores.size(), " scores for ", completions.size(),
                       " completions; wanted ", wanted);
  }
  std::vector<double> rewards;
  for (const Json& score : scores) rewards.push_back(RewardIn(score, JsonLine(score), who, wanted));
  return rewards;
}

}  // namespace trireme
