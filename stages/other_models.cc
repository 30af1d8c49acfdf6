// The list of roles. Layouts of their own have all weights on each data-parallel rank, and no context parallelism.
#include "stages/other_models.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "stages/policy_check.h"
#include "stages/ppo_check.h"
#include "stages/preference_check.h"

namespace trireme {
namespace {

using Models = std::vector<OtherModel>;

std::optional<ParallelConfig> LayoutOf(const Config& config, const LayoutConfig& layout) {
  if (layout.tensor() + layout.pipeline() + layout.expert() + layout.expert_tensor() == 0) return std::nullopt;
  ParallelConfig parallel;
  parallel.set_tensor(std::max(layout.tensor(), 1));
  parallel.set_pipeline(std::max(layout.pipeline(), 1));
  parallel.set_expert(std::max(layout.expert(), 1));
  parallel.set_expert_tensor(std::max(layout.expert_tensor(), 1));
  parallel.set_sequence(config.parallel().sequence());
  parallel.set_zero(0);
  return parallel;
}

Models References(const Config& config) {
  if (!NeedsSecondModel(config) || FactsOf(config).method == MethodKind::kDistillation) return {};
  return {{.role = ModelRole::kReference,
           .name = "reference",
           .key = "reference",
           .directory = ComparesWithItself(config) ? config.model().path() : config.reference(),
           .alike = true,
           .offload = config.memory().offload_reference(),
           .shard = config.memory().shard_reference(),
           .saved_as = config.reference_sync().steps() > 0 ? "reference" : "",
           .saved_with = "reference_sync.steps"}};
}

Models Teachers(const Config& config) {
  if (FactsOf(config).method != MethodKind::kDistillation || config.distillation().teacher().empty()) return {};
  return {{.role = ModelRole::kTeacher,
           .name = "teacher",
           .key = "distillation.teacher",
           .directory = config.distillation().teacher(),
           .own_is = "student",
           .layout = LayoutOf(config, config.distillation().layout()),
           .layout_key = "distillation.layout",
           .reads = "their distributions are compared token by token: use a teacher with the student's tokenizer",
           .offload = config.memory().offload_reference(),
           .shard = config.memory().shard_reference()}};
}

Models ValueModels(const Config& config) {
  if (!HasValueModel(config)) return {};
  return {{.role = ModelRole::kValue,
           .name = "value",
           .key = "rl.value_model",
           .directory = ValueModelOf(config),
           .head = HeadKind::kScore,
           .reads = "it reads the policy's tokens: use one with its tokenizer",
           .trained = true,
           .saved_as = "value_model",
           .saved_with = "stage: ppo"}};
}

Models RewardModels(const Config& config) {
  Models models;
  if (!FactsOf(config).on_completions() || !config.rl().rollouts().empty()) return models;
  for (const std::string& reward : config.rl().rewards()) {
    const std::optional<std::string> directory = RewardModelIn(reward);
    if (!directory) continue;
    models.push_back({.role = ModelRole::kReward,
                      .name = "reward",
                      .key = "rl.rewards",
                      .directory = *directory,
                      .head = HeadKind::kScore,
                      .of_samplings = true,
                      .shard = config.memory().shard_reference()});
  }
  return models;
}

Models Samplers(const Config& config) {
  const std::optional<ParallelConfig> layout = LayoutOf(config, config.rl().sampling());
  if (!layout) return {};
  return {{.role = ModelRole::kSampler,
           .name = "sampler",
           .key = "rl.sampling",
           .alike = true,
           .layout = layout,
           .layout_key = "rl.sampling",
           .of_samplings = true}};
}

struct Role {
  ModelRole role;
  Models (*list)(const Config& config);
};

constexpr Role kRoles[] = {{ModelRole::kSampler, Samplers},
                           {ModelRole::kTeacher, Teachers},
                           {ModelRole::kValue, ValueModels},
                           {ModelRole::kReference, References},
                           {ModelRole::kReward, RewardModels}};

}  // namespace

std::vector<OtherModel> OtherModels(const Config& config) {
  Models models;
  for (const Role& role : kRoles) std::ranges::move(role.list(config), std::back_inserter(models));
  return models;
}

std::vector<OtherModel> OtherModels(const Config& config, ModelRole role) {
  for (const Role& one : kRoles) {
    if (one.role == role) return one.list(config);
  }
  return {};
}

std::optional<OtherModel> OtherModelOf(const Config& config, ModelRole role) {
  Models models = OtherModels(config, role);
  return models.empty() ? std::nullopt : std::optional(std::move(models.front()));
}

Config ConfigOf(const Config& run, const OtherModel& model) {
  Config config = run;
  if (model.layout) *config.mutable_parallel() = *model.layout;
  if (model.shard) config.mutable_parallel()->set_zero(3);
  if (config.has_memory()) config.mutable_memory()->clear_vision_features_mb();  // of the run's own model alone
  if (model.directory.empty()) return config;
  config.mutable_model()->set_path(model.directory);
  config.mutable_model()->set_init(MODEL_INIT_WEIGHTS);
  if (model.trained || model.directory != run.model().path()) {  // quantise and fp8 speak of the run's own
    config.mutable_model()->clear_quantise();
    config.mutable_model()->clear_fp8();
    config.mutable_model()->clear_fp8_skip();
  }
  config.mutable_tuning()->Clear();
  config.mutable_tuning()->set_kind(TUNING_FULL);
  config.mutable_multi_token_prediction()->Clear();
  return config;
}

bool RepeatsLayout(const Config& config, ModelRole role) {
  const std::optional<OtherModel> model = OtherModelOf(config, role);
  if (!model || !model->layout) return false;
  const ParallelConfig &run = config.parallel(), &own = *model->layout;
  return run.tensor() == own.tensor() && run.pipeline() == own.pipeline() && run.expert() == own.expert() &&
         run.expert_tensor() == own.expert_tensor() && run.context() == 1;
}

}  // namespace trireme
