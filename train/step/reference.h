// Reference: the frozen model that answers are compared with: the session's own without its adapter, with the adapter
// it started from, or a second one, which may be sharded or wait in host memory between passes. Gives log-probabilities
// of answers in forward-only passes over the very micro batches that the policy runs, so that what both round alike
// cancels. Between passes a second one may move towards the policy.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/pass/pass_input.h"
#include "session/session.h"
#include "stages/other_models.h"

namespace trireme {

// Of the ranks that have the same rows, one.
bool SpeaksForRows(const Session& session);

// Of each document, by micro batch; empty on ranks without the head. Nothing is differentiated or dropped. Collective.
std::vector<std::vector<double>> AnswerLogProbsOf(Session& session, const std::vector<PassInput>& inputs,
                                                  bool adapters = true);

class Reference {
 public:
  // As the session's configuration names it; a second model takes its weights here, or where it follows the policy
  // those of the checkpoint that the run resumes from. `session` outlives it. Collective.
  explicit Reference(Session& session, const std::optional<std::filesystem::path>& checkpoint = {});

  bool wants_start() const { return starts_; }
  // Once, when the session has the weights that training starts from, before those of a checkpoint.
  void TakeStart();
  // As AnswerLogProbsOf. Collective.
  std::vector<std::vector<double>> LogProbsOf(const std::vector<PassInput>& inputs);
  // Calls `use` with the model as the reference has it, and whether its adapters count. Collective.
  void Use(const std::function<void(Session& model, bool adapters)>& use);
  // After each step: moves the weights towards the policy's, where the configuration says so, and this is the step.
  // Collective.
  void Sync(int64_t step);
  // A second model in memory; nothing: it is the session's own.
  const std::optional<OtherModel>& second() const { return second_; }
  // The model whose weights belong to a checkpoint; nullptr: they are those of its directory.
  Session* saved() { return follows_ ? frozen_.get() : nullptr; }

 private:
  void Exchange();  // the trained values for those of the start, and back

  Session& session_;
  const std::optional<OtherModel> second_;
  std::unique_ptr<Session> frozen_;    // which is that
  bool follows_ = false;               // the policy, by reference_sync
  bool adapters_ = true;               // of the session itself, in its passes as the reference
  bool starts_ = false;                // with the trained values that it started from
  std::vector<at::Tensor> elsewhere_;  // by trained bucket, [share]: start values, or in an exchange the policy's
};

}  // namespace trireme
