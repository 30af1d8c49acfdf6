// Method: how a run trains: what its data is, what a step does up to the gradients, what else it trains or keeps. The
// loop (train/run/loop.h) asks and never knows which method it has; it makes the updates, saves, evaluates and reports.
// Which method a stage has is one line of stages/stages.cc, how it is made one of train/run/methods.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/manifest.pb.h"
#include "data/dataset.h"
#include "stages/other_models.h"
#include "train/report/logged_step.h"
#include "train/states/run_start.h"
#include "train/step/reference.h"
#include "train/step/trainer.h"

namespace trireme {

// What a method is given when the session stands. All of it outlives the method's steps.
struct MethodRun {
  Trainer& trainer;  // of the run's own model, with the stage's objective
  const RunStart& start;
  int64_t total_steps = 0;
};

// A model beside the run's own that its checkpoints contain.
struct SavedModel {
  OtherModel what;
  Session* session = nullptr;  // not null
  Trainer* trainer = nullptr;  // null: it is not trained
};

// Of a reference, which may be null: itself, if it follows the policy; otherwise its directory has its weights.
std::vector<SavedModel> SavedModels(Reference* reference);

// What a step gave.
struct StepResult {
  double loss = 0;
  double epoch = 0;           // epochs completed after the step
  double waited_seconds = 0;  // for its rows
  MetricValues metrics = {};
  const RowSource* rows = nullptr;   // of which it trained
  std::vector<int64_t> chosen = {};  // these, all ranks together
};

class Method {
 public:
  virtual ~Method() = default;

  // Once, before any device is touched: the run's data. Bad data is an input error. Not collective.
  virtual DataSets Open(const DataPlace& place) = 0;
  // The same for a start that it cannot go on from.
  virtual void CheckStart(const RunStart& /*start*/) const {}
  // Once, before the model has weights: opens what it needs beside it. Collective.
  virtual void Begin(const MethodRun& run) = 0;
  // Whether TakeStart matters: it keeps weights that training started from, before those of a checkpoint.
  virtual bool wants_start() { return false; }
  virtual void TakeStart() {}
  // Once, when the model has the weights that the first step trains. Collective.
  virtual void Prepare() {}

  // The models beside the run's own, from Prepare on.
  virtual std::vector<SavedModel> others() { return {}; }
  // Forward and backward of a step, counted from 1, in the order of steps; gradients stay in the trainers. Throws
  // NoStep (train/step/no_step.h) where it could not begin. Collective.
  virtual void Pass(int64_t step) = 0;
  // Of that pass, when its gradients are finished.
  virtual StepResult Result() = 0;
  // When the models were updated, or the update was skipped. Collective.
  virtual void AfterUpdate(int64_t /*step*/) {}
  // Whether a run may be stopped after this step: updates that share something are not parted.
  virtual bool EndsWindow(int64_t /*step*/) const { return true; }
  // Whether it is the last step of its epoch.
  virtual bool EndsEpoch(int64_t step) = 0;
  // Over the data's valid rows, after so many steps; nothing is trained. Collective.
  virtual Evaluation Evaluate(int64_t step) = 0;
  // What its next start needs from a checkpoint beside the models.
  virtual void AddTo(checkpoint::Progress& /*progress*/) const {}
};

}  // namespace trireme
