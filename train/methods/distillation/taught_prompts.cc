#include "train/methods/distillation/taught_prompts.h"

#include "data/rows_without_patches.h"
#include "stages/distillation_check.h"

namespace trireme {
namespace {

// The last answer of a conversation alone is trained, each in a row of its own.
Config OneAnswerPerRow(const Config& config) {
  Config data = config;
  data.mutable_data()->set_packing(false);
  data.mutable_data()->set_loss(LOSS_LAST_ROUND);
  // Evaluations read prompts.
  data.mutable_data()->clear_valid();
  data.mutable_eval()->set_every(0);
  data.mutable_eval()->set_every_epoch(false);
  data.mutable_eval()->set_at_start(false);
  return data;
}

}  // namespace

Prompts OpenTaught(const Config& config, const DataPlace& place) {
  CheckHasPrompts(config);
  const DataSets read = OpenDataSetsWithoutPatches(OneAnswerPerRow(config), place);
  const auto taught = std::make_shared<PromptSet>(config, *read.train, DistillationSamples(config));
  Prompts prompts{.data = {.train = taught->AsRows(), .valid = nullptr, .samples = taught->size()},
                  .replay = {},
                  .sampled = taught};
  CheckCount(config, prompts);
  OpenValidPrompts(config, place, prompts);
  return prompts;
}

}  // namespace trireme
