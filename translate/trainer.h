// What ms-swift, LLaMA-Factory and TRL have in common: the options of Hugging Face's TrainingArguments.
#pragma once

#include "translate/system.h"

namespace trireme {

// Whether log.report_to has a service of this name.
bool IsReporter(const std::string& name);

std::vector<RuleRow> TrainerRules();
// Rows of `more` come first.
std::vector<RuleRow> WithTrainerRules(std::vector<RuleRow> more);

// NPROC_PER_NODE x NNODES, torchrun's words, or --world; 1 if nothing says.
int WorldOf(const Given& given, const Surroundings& around);

struct BatchRule {
  int per_device = 8;    // where the user says nothing
  int accumulation = 1;  // 0: as many as make a step of 16 sequences, as ms-swift has it
  int shared_by = 1;     // ranks that work on the same sequences: tensor, pipeline and context parallel
};
// run.micro_batch, and run.global_batch = per device x accumulation x data-parallel ranks.
void SetBatch(const Given& given, int world, const BatchRule& rule, Translation& result);

// save_strategy, save_steps and their like for evaluation. `evaluates`: steps between evaluations default to
// save_steps.
void SetSavesAndEvaluations(const Given& given, bool evaluates, Translation& result);

// Drops evaluations without data, and names a model that no family here can be.
void FinishTrainer(const Given& given, const std::string& system, Translation& result);

}  // namespace trireme
