// A training stage is data: one row of facts in stages/stages.cc. Who acts on a stage asks for the fact that it means,
// never for the stage. What its keys must be is in the other files of this folder. No torch.
#pragma once

#include <span>
#include <string>

#include "core/config.pb.h"

namespace trireme {

// What a record of the data is.
enum class Records {
  kText,           // plain text, all of which is trained
  kConversations,  // messages, of which answers are trained
  kPairs,          // two answers, the chosen and the rejected one
  kJudged,         // one answer with a label, good or bad
  kPrompts,        // what completions are sampled for
  kTexts,          // texts that belong together, or do not
  kRanked,         // a query with documents that are relevant to it, or are not
  kLabelled,       // a text with a label, several, or a number
};

// How it is trained: one class each in train/methods.
enum class MethodKind {
  kTokens,        // the tokens of rows
  kPreference,    // answers that are compared, or judged
  kPolicy,        // completions that are rewarded
  kDistillation,  // completions as a teacher would write them
  kRetrieval,     // whole texts: their vectors, scores or labels
};

// What the model's last layer gives.
enum class HeadKind {
  kLogits,  // of the vocabulary
  kScore,   // one number, or several
  kVector,  // the hidden state itself
};

// What rewards of completions are compared with.
enum class Baseline {
  kNone,    // there are none
  kGroup,   // the mean of their prompt's, scaled by rl.scale_rewards
  kOthers,  // the mean of the others of their prompt
  kBatch,   // the mean of their prompt's, over the deviation of the batch
  kValues,  // what a value model, or head, expects, token by token
};

struct StageFacts {
  Stage stage;
  const char* name;  // as it is spelt
  Records records;
  MethodKind method;
  const char* objective;   // of parallel/objectives/objectives.h
  bool reference = false;  // it can compare with one
  Baseline baseline = Baseline::kNone;
  HeadKind head = HeadKind::kLogits;

  // Records have answers to compare or judge.
  bool of_answers() const { return records == Records::kPairs || records == Records::kJudged; }
  // Steps train on completions of prompts, which a model, a file or a sampler outside writes.
  bool on_completions() const { return method == MethodKind::kPolicy || method == MethodKind::kDistillation; }
};

// One for each stage, in the order of their numbers.
std::span<const StageFacts> AllStages();
const StageFacts& FactsOf(Stage stage);
inline const StageFacts& FactsOf(const Config& config) { return FactsOf(config.stage()); }

// The objective of a run: the stage's, or that of a policy with values.
std::string ObjectiveOf(const Config& config);
// Whether masks are drawn in training, if the keys of tuning want any.
bool DrawsDropout(const Config& config);
// Refuses keys that do not fit together, by the rules of the stage.
void CheckStage(const Config& config);

}  // namespace trireme
