#include "train/rollouts/completion_scores.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/record_fields.h"
#include "stages/evaluation_check.h"
#include "train/rollouts/answer_check.h"
#include "train/rollouts/rewards.h"
#include "train/rollouts/rollout_metrics.h"

namespace trireme {
namespace {

constexpr char kSourceColumn[] = "data_source";

// The completions of one prompt that have the reward in question.
struct ScoredPrompt {
  std::vector<double> values;
  std::vector<const Rollout*> rollouts;
};
using ScoredPrompts = std::vector<ScoredPrompt>;

// The reward of the most frequent answer, of equally frequent ones the first: that of its first completion (verl's
// maj@).
double MajorityValue(const ScoredPrompt& prompt) {
  std::vector<size_t> firsts;  // of each answer
  std::vector<int64_t> counts;
  for (size_t i = 0; i < prompt.rollouts.size(); ++i) {
    const std::string answer = AnswerIn(prompt.rollouts[i]->completion);
    const auto same = std::ranges::find_if(
        firsts, [&](size_t first) { return IsSameAnswer(answer, AnswerIn(prompt.rollouts[first]->completion)); });
    if (same == firsts.end()) {
      firsts.push_back(i);
      counts.push_back(1);
    } else {
      ++counts[static_cast<size_t>(same - firsts.begin())];
    }
  }
  return prompt.values[firsts[static_cast<size_t>(std::ranges::max_element(counts) - counts.begin())]];
}

// Over the prompts that have at least so many values; nothing where there are none.
template <typename Value>
void AddMean(const std::string& name, const ScoredPrompts& prompts, int64_t least, Value value, MetricValues& scores) {
  std::vector<double> found;
  for (const ScoredPrompt& prompt : prompts) {
    if (std::ssize(prompt.values) >= least) found.push_back(value(prompt));
  }
  if (!found.empty()) scores[name] = MeanOf(found);
}

MetricValues ScoresOf(const ScoredPrompts& prompts, const Config& config) {
  const int64_t k = config.eval().completions();
  const double least = config.eval().correct_above();
  MetricValues scores;
  AddMean(Concat("mean@", k), prompts, 1, [](const ScoredPrompt& one) { return MeanOf(one.values); }, scores);
  for (const int64_t n : SubsetSizes(k)) {
    const auto passes = [&](const ScoredPrompt& one) {
      std::vector<double> correct;
      for (const double value : one.values) correct.push_back(value > least ? 1 : 0);
      return MeanBestOf(std::move(correct), n);
    };
    AddMean(Concat("pass@", n), prompts, n, passes, scores);
    if (n == 1) continue;
    AddMean(Concat("best@", n), prompts, n, [&](const ScoredPrompt& one) { return MeanBestOf(one.values, n); }, scores);
  }
  if (k > 1 && std::ranges::any_of(config.rl().rewards(), ComparesAnswers)) {
    AddMean(Concat("maj@", k), prompts, 1, MajorityValue, scores);
  }
  return scores;
}

// The values of eval.reward, or the weighted sums.
std::vector<double> JudgedValues(const RewardTable& table, const Config& config) {
  const auto found = std::ranges::find(table.names, config.eval().reward());
  if (found == table.names.end()) return TotalsOf(table);
  return table.rewards[static_cast<size_t>(found - table.names.begin())];
}

// Those of the prompts with this source; of "": all.
ScoredPrompts PromptsOf(const EvaluatedCompletions& evaluated, const std::vector<double>& values,
                        const std::string& source) {
  ScoredPrompts prompts;
  const auto group = static_cast<size_t>(evaluated.table.group);
  for (size_t prompt = 0; prompt * group < values.size(); ++prompt) {
    if (!source.empty() && evaluated.sources[prompt] != source) continue;
    ScoredPrompt& one = prompts.emplace_back();
    for (size_t i = prompt * group; i < (prompt + 1) * group; ++i) {
      if (std::isnan(values[i])) continue;
      one.values.push_back(values[i]);
      one.rollouts.push_back(&evaluated.rollouts[i]);
    }
  }
  return prompts;
}

// Completions of this source, with their rewards.
struct Part {
  RewardTable table;
  std::vector<Rollout> rollouts;
};

Part PartOf(const EvaluatedCompletions& evaluated, const std::string& source) {
  const RewardTable& whole = evaluated.table;
  Part part{.table = {.names = whole.names,
                      .weights = whole.weights,
                      .rewards = std::vector<std::vector<double>>(whole.rewards.size()),
                      .group = whole.group}};
  for (size_t i = 0; i < evaluated.rollouts.size(); ++i) {
    if (evaluated.sources[i / static_cast<size_t>(whole.group)] != source) continue;
    part.rollouts.push_back(evaluated.rollouts[i]);
    for (size_t r = 0; r < whole.rewards.size(); ++r) part.table.rewards[r].push_back(whole.rewards[r][i]);
  }
  return part;
}

MetricValues CommonMetrics(const RewardTable& table, std::span<const Rollout> rollouts, const Config& config) {
  MetricValues metrics = RewardMetrics(table, config);
  metrics.erase("frac_reward_zero_std");  // teaches nothing here
  metrics.merge(LengthMetrics(rollouts));
  return metrics;
}

std::set<std::string> DifferentSources(const std::vector<std::string>& sources) {
  std::set<std::string> different(sources.begin(), sources.end());
  different.erase("");
  return different;
}

// The names that CompletionScores gives, with numbers of no meaning.
MetricValues NamesOf(const PromptSet& prompts, const std::vector<std::string>& rewards, const Config& config) {
  const int64_t k = config.eval().completions();
  const auto count = static_cast<size_t>(prompts.size() * k);
  const RewardTable table{.names = rewards,
                          .weights = std::vector<double>(rewards.size(), 1),
                          .rewards = std::vector<std::vector<double>>(rewards.size(), std::vector<double>(count, 0)),
                          .group = k};
  const std::vector<Rollout> rollouts(count);
  return CompletionScores({.table = table, .rollouts = rollouts, .sources = SourcesOf(prompts, config)}, config);
}

}  // namespace

double MeanBestOf(std::vector<double> values, int64_t n) {
  std::ranges::sort(values);
  const int64_t k = std::ssize(values);
  TRIREME_CHECK(n >= 1 && n <= k) << n << " of " << k << " values";
  // The share of subsets whose largest value is that at index i, from the largest on: n / k, then by Pascal's rule.
  double share = static_cast<double>(n) / static_cast<double>(k), mean = 0;
  for (int64_t i = k - 1; i >= n - 1; --i) {
    mean += share * values[static_cast<size_t>(i)];
    if (i > 0) share *= static_cast<double>(i - n + 1) / static_cast<double>(i);
  }
  return mean;
}

std::vector<int64_t> SubsetSizes(int64_t k) {
  std::vector<int64_t> sizes;
  for (int64_t n = 1; n < k; n *= 2) sizes.push_back(n);
  sizes.push_back(k);
  return sizes;
}

MetricValues CompletionScores(const EvaluatedCompletions& evaluated, const Config& config) {
  const std::vector<double> values = JudgedValues(evaluated.table, config);
  MetricValues metrics = CommonMetrics(evaluated.table, evaluated.rollouts, config);
  metrics.merge(ScoresOf(PromptsOf(evaluated, values, ""), config));
  for (const std::string& source : DifferentSources(evaluated.sources)) {
    const Part part = PartOf(evaluated, source);
    MetricValues of_source = CommonMetrics(part.table, part.rollouts, config);
    of_source.merge(ScoresOf(PromptsOf(evaluated, values, source), config));
    for (const auto& [name, value] : of_source) metrics[Concat("source/", source, "/", name)] = value;
  }
  return metrics;
}

std::vector<std::string> SourcesOf(const PromptSet& prompts, const Config& config) {
  std::vector<std::string> sources(static_cast<size_t>(prompts.size()));
  for (int64_t i = 0; config.eval().by_source() && i < prompts.size(); ++i) {
    const Json& record = prompts.at(i).record;
    if (record.is_object() && Has(record, kSourceColumn)) {
      sources[static_cast<size_t>(i)] = TextAt(record, kSourceColumn);
    }
  }
  return sources;
}

void CheckScoreNames(const PromptSet& prompts, const Config& config) {
  std::vector<std::string> rewards;
  for (const std::string& name : config.rl().rewards()) rewards.push_back(LogNameOf(name));
  const std::string& reward = config.eval().reward();
  if (!reward.empty() && std::ranges::find(rewards, reward) == rewards.end()) {
    throw InputError("eval.reward: ", reward, " is none of rl.rewards; wanted one of ", Join(rewards));
  }
  const MetricValues names = NamesOf(prompts, rewards, config);
  const std::string metric = EvaluationMetric(config);
  if (names.contains(metric)) return;
  std::vector<std::string> known;
  for (const auto& [name, value] : names) known.push_back(name);
  throw InputError("eval.metric: ", metric, " is not a metric of this run's evaluations; wanted one of ", Join(known));
}

}  // namespace trireme
