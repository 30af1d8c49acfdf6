// WorkOrder: which unit of work is next, of all models' and of the loose ones: models take turns, short steps go first,
// and passes of different models that are alike run as one, whether they are waiting or about to come
// (ExpectedRequests): a model which is alone waits for nobody. Whoever runs the model calls it, one unit after another,
// which may take as long as it likes. All it has is guarded by RemoteState's lock.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "serve/tinker/fair_turns.h"
#include "serve/tinker/remote_state.h"
#include "serve/tinker/training_models.h"

namespace trireme::tinker {

class WorkOrder {
 public:
  // Both outlive it.
  WorkOrder(RemoteState& state, TrainingModels& models) : state_(state), models_(models) {}

  // The next unit; then what came of it. idle: no tokens are being generated; otherwise a unit that changes the weights
  // they are generated with has to wait.
  std::optional<Task> Take(bool idle = true);
  // The same with passes of other models that may join it; empty: there is nothing to do.
  std::vector<Task> TakeJoined(bool idle = true);
  void Finish(const Task& task, const TrainOutcome& outcome);

  bool HasWork() const;
  // Whether the next unit is one that waits until no tokens are being generated.
  bool NeedsIdle() const;
  // Seconds for which TakeJoined holds passes that are ready, since others are about to come; 0: it does not.
  double Patience() const;

 private:
  std::optional<Task> TakeOne(const Held& held, bool idle);
  void Join(const Held& held, std::vector<Task>& tasks);
  bool NextNeedsIdle(const Held& held) const;
  double PatienceNow(const Held& held) const;
  std::vector<Turn> Ready(const Held& held) const;
  bool LooseComesFirst(const Held& held) const;
  // Of those that are ready, steps that go before others' passes; if there is none, all.
  std::vector<Turn> StepsOrAll(const Held& held, std::vector<Turn> ready) const;
  // The request of one of these, whose turn it is; its owner is charged.
  Task TakeTurn(const Held& held, const std::vector<Turn>& ready);
  void NoteWeights(const TrainWork& work, const TrainOutcome& outcome);

  RemoteState& state_;
  TrainingModels& models_;
  FairTurns turns_;
  double pass_began_ = 0;          // the last one
  bool scored_ = false;            // the last pass was one of loose work
  std::set<std::string> stepped_;  // models whose steps went first since the last pass
};

}  // namespace trireme::tinker
