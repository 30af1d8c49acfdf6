#include "generation/step_pipeline.h"

#include <algorithm>
#include <utility>

#include "parallel/tensor/collectives.h"
#include "session/session.h"

namespace trireme {

StepPipeline::StepPipeline(Session& session, KeyValueCache& cache, bool own_adapter)
    : session_(session), cache_(cache), own_adapter_(own_adapter), stages_(session.plan().placement.stages()) {
  // Recordings are of passes with the session's own adapters, if it has any.
  const bool same = own_adapter || !session.graph().adapter;
  if (same && RecordedSteps::WhyNot(session).empty()) recorded_ = std::make_unique<RecordedSteps>(session, cache);
}

std::optional<StepPipeline::Done> StepPipeline::Tick(EngineStep step, std::unique_ptr<StepPass> pass) {
  if (pass != nullptr && recorded_ != nullptr && recorded_->Takes(*pass)) {
    ++stage_steps_;
    return Done{std::move(step), recorded_->Logits(*pass)};
  }
  Flight next{.step = std::move(step), .rows = {}, .adapters = {}, .objective = {}, .batch = {}, .value = {}};
  if (pass != nullptr) {
    pass->MoveTo(session_.tensors().torch());
    next.rows = std::move(pass->rows);
    next.adapters = std::move(pass->adapters);
    next.objective = std::make_unique<NextTokenLogits>(pass->wanted);
    next.batch = std::make_unique<PassBatch>(
        std::vector<PassInput>{std::move(pass->input)},
        PassOptions{
            .objective = next.objective.get(), .differentiate = false, .adapters = own_adapter_, .cache = &cache_});
  }
  flights_.emplace_front(std::move(next));
  const int reached = static_cast<int>(flights_.size());  // stages; fewer at the start
  for (int stage = 0; stage < reached; ++stage) {
    if (IsMine(stage)) Compute(flights_[static_cast<size_t>(stage)], stage);
  }
  // In the same order on every rank: none waits for one that waits for it.
  for (int stage = std::min(reached, stages_ - 1) - 1; stage >= 0; --stage)
    HandOver(flights_[static_cast<size_t>(stage)], stage);
  if (reached < stages_) return std::nullopt;
  Flight done = std::move(flights_.back());
  flights_.pop_back();
  const at::Tensor logits = done.batch ? done.batch->result().outputs[0].logits : at::Tensor();
  return Done{std::move(done.step), logits};
}

bool StepPipeline::IsMine(int stage) const {
  return session_.plan().placement.SiteOf(stage).rank == session_.groups().Get("pp").rank();
}

// One of this rank's, set to the flight's batch.
StageWork& StepPipeline::StageOf(Flight& flight, int stage) {
  session_.model().SetBatches(*flight.batch);
  return *session_.model().chunks().at(static_cast<size_t>(session_.plan().placement.SiteOf(stage).chunk));
}

void StepPipeline::Compute(Flight& flight, int stage) {
  ++stage_steps_;
  if (flight.batch == nullptr) {
    ++idle_stage_steps_;
    return;
  }
  cache_.Begin(flight.rows, flight.adapters == nullptr ? nullptr : &flight.adapters->rows);
  flight.value = StageOf(flight, stage).Forward(0, flight.value);
}

// From the rank of a stage to that of the next.
void StepPipeline::HandOver(Flight& flight, int stage) {
  if (flight.batch == nullptr || IsMine(stage) == IsMine(stage + 1)) return;
  const StagePlacement& placement = session_.plan().placement;
  Communicator& pipeline = session_.groups().Get("pp");
  if (IsMine(stage)) {
    Send(flight.value, pipeline, placement.SiteOf(stage + 1).rank);
    flight.value = at::Tensor();
  } else {
    flight.value = StageOf(flight, stage + 1).EmptyInput(0);
    Receive(flight.value, pipeline, placement.SiteOf(stage).rank);
  }
}

}  // namespace trireme
