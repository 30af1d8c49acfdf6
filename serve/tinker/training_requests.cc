// Requests of TrainingModels that wait their turn. What is wrong with a request is found here; it keeps its place in
// the order, since the client has numbered it already.
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "serve/fields.h"
#include "serve/tinker/json_data.h"
#include "serve/tinker/proto_data.h"
#include "serve/tinker/request_fields.h"
#include "serve/tinker/training_models.h"
#include "serve/tinker/user_fields.h"

namespace trireme::tinker {
namespace {

constexpr char kSamplingSeq[] = "sampling_session_seq_id";

}  // namespace

Json TrainingModels::Queue(const std::string& owner, const Json& body, const Make& make) {
  Fields fields(body, "");
  return Enqueue(owner, IdOf(fields, "model_id"), SeqOf(fields, "seq_id"), make);
}

Json TrainingModels::Enqueue(const std::string& owner, const std::string& id, int64_t seq, const Make& make) {
  const Held held(state_.mutex);
  state_.RefuseIfClosed(held);
  TrainingModel& model = Find(owner, id);
  sessions_.Hear(held, owner, model.session);
  const auto answer = [&](const std::string& future) { return Json{{"request_id", future}, {"model_id", id}}; };
  if (const auto known = model.queue.Known(seq)) return answer(*known);
  if (!model.queue.waits_for(seq)) {  // later ones may wait for that one
    state_.RefuseIfFull(held, owner);
    if (static_cast<int64_t>(model.queue.size()) >= state_.facts.max_queued) {
      throw ApiError{.status = 429, .message = "too many requests of this model are waiting; try again later"};
    }
  }
  Task task = MakeTask(owner, model, id, seq, make);
  const std::string future = task.future;
  model.last_request = IsoTime();
  if (model.queue.size() == 0) expected_.Came(id, state_.clock());
  model.queue.Add(seq, std::move(task), state_.clock());
  state_.wake();
  return answer(future);
}

Task TrainingModels::MakeTask(const std::string& owner, const TrainingModel& model, const std::string& id, int64_t seq,
                              const Make& make) {
  Task task{.future = state_.futures.Add(owner)};
  task.work.model = id;
  try {
    make(model, task);
  } catch (const ApiError& error) {
    task = {.future = task.future, .refusal = error.message, .users_fault = error.status < 500};
  } catch (const std::exception& error) {  // a full disk, no memory: later requests must not wait for this one
    TRIREME_LOG(ERROR) << "remote training: request " << seq << " of " << id << ": " << error.what();
    task = {.future = task.future, .refusal = "the server could not take it; its log says why", .users_fault = false};
  }
  return task;
}

void TrainingModels::MakePass(Task& task, const RawLoss& raw, bool backward) const {
  LossRequest request = CheckLoss(raw, state_.facts.limits);
  if (request.base && state_.facts.full)
    Refuse("loss_fn_config.disable_lora: this server trains the model in full; there is no adapter to leave out");
  if (request.base && backward) Refuse("loss_fn_config.disable_lora: only of forward");
  task.work.action = TrainAction::kPass;
  task.work.rows = std::move(request.rows);
  task.work.loss = request.loss;
  task.work.numbers = request.numbers;
  task.work.backward = backward;
  task.work.base = request.base;
  task.finish = [columns = std::move(request.columns), loss = request.loss](const Held&, const TrainOutcome& outcome) {
    if (!outcome.error.empty()) return FutureResult();
    const Json metrics = {{"loss:sum", outcome.loss}};
    FutureResult result = Success({{"loss_fn_output_type", "TensorData"},
                                   {"loss_fn_outputs", LogprobsJson(outcome.logprobs, columns)},
                                   {"metrics", metrics}});
    result.proto = PassOutputProto(outcome, columns);
    return result;
  };
}

Json TrainingModels::Pass(const std::string& owner, const Json& body, const std::string& name) {
  return Queue(owner, body, [&](const TrainingModel&, Task& task) {
    Fields fields(body, "");
    const Json* input = fields.Find(name);
    fields.Accept({"model_id", "seq_id", "type"});
    if (input == nullptr) fields.Fail(name, "is missing");
    fields.Finish();
    MakePass(task, ReadLossJson(*input, name), name == "forward_backward_input");
  });
}

Json TrainingModels::PassProto(const std::string& owner, const std::string& bytes) {
  ProtoPass pass = ReadPassProto(bytes);
  return Enqueue(owner, pass.model_id, pass.seq_id, [&](const TrainingModel&, Task& task) {
    if (!pass.refusal.empty()) Refuse(pass.refusal);
    MakePass(task, pass.loss, !pass.forward_only);
  });
}

Json TrainingModels::Step(const std::string& owner, const Json& body) {
  return Queue(owner, body, [&](const TrainingModel&, Task& task) {
    Fields fields(body, "");
    task.work.action = TrainAction::kStep;
    task.work.adam = ReadAdam(fields);
    fields.Accept({"model_id", "seq_id", "type"});
    fields.Finish();
    task.finish = [](const Held&, const TrainOutcome& outcome) {
      return Success({{"type", "optim_step"},
                      {"metrics", {{"grad_norm", outcome.grad_norm}, {"step", static_cast<double>(outcome.step)}}}});
    };
  });
}

Json TrainingModels::FactsOf(const TrainingModel& model, Fields& fields) const {
  const Json metadata = UserMetadata(fields);
  Json facts = {{"base_model", state_.facts.model_name},
                {"lora_rank", model.adapters.rank},
                {"train_attn", model.adapters.attention},
                {"train_mlp", model.adapters.mlp},
                {"time", IsoTime(state_.checkpoints.now())},
                {"user_metadata", metadata.is_null() ? model.user_metadata : metadata}};
  if (state_.facts.full) facts["full"] = true;
  if (const auto seconds = fields.Integer("ttl_seconds", 3600, int64_t{1} << 40))
    facts["expires"] = state_.checkpoints.now() + *seconds;
  return facts;
}

Json TrainingModels::Save(const std::string& owner, const Json& body) { return SaveNamed(owner, body, kTrainingKind); }

Json TrainingModels::SaveExternal(const std::string& owner, const Json& body) {
  return SaveNamed(owner, body, kExternalKind);
}

Json TrainingModels::SaveNamed(const std::string& owner, const Json& body, const std::string& kind) {
  return Queue(owner, body, [&](const TrainingModel& model, Task& task) {
    Fields fields(body, "");
    const std::string id = IdOf(fields, "model_id");
    const std::string name = fields.Text("path").value_or(Concat("step-", SeqOf(fields, "seq_id")));
    const bool overwrite = fields.Switch("overwrite").value_or(false);
    if (!IsCheckpointName(name)) fields.Fail("path", "wanted a name of letters, digits, '.', '_' and '-'");
    fields.Accept({"model_id", "seq_id", "type"});
    fields.Refuse("age_encryption_recipients", "is not supported: files are not encrypted; leave it out");
    const Json facts = FactsOf(model, fields);
    fields.Finish();
    const CheckpointPath path{id, kind, name};
    const std::filesystem::path aside = state_.checkpoints.Aside(owner, path);
    task.work.action = TrainAction::kSave;
    task.work.directory = aside.string();
    task.work.optimizer = kind == kTrainingKind;
    task.finish = [this, owner, path, aside, facts, overwrite,
                   type = kind == kTrainingKind ? "save_weights" : "save_weights_external"](
                      const Held&, const TrainOutcome& outcome) {
      if (outcome.error.empty() && (overwrite || !state_.checkpoints.Exists(owner, path))) {
        state_.checkpoints.Commit(aside, owner, path, facts);
        if (state_.facts.full) state_.versions.AreOf(path.Text());
        return Success({{"path", path.Text()}, {"type", type}});
      }
      std::filesystem::remove_all(aside);
      return Failure(path.Text() + ": is there already; choose another name, or ask for overwrite", true);
    };
  });
}

Json TrainingModels::Load(const std::string& owner, const Json& body) {
  if (!body.is_object() || !body.contains("model_id"))
    Refuse("load_weights: model_id is missing; create the model first");
  return Queue(owner, body, [&](const TrainingModel& model, Task& task) {
    Fields fields(body, "");
    const CheckpointPath path = ParsePath(IdOf(fields, "path"));
    const std::string id = IdOf(fields, "model_id");
    const CheckpointRecord record = state_.checkpoints.Find(owner, path);
    task.work.action = TrainAction::kLoad;
    task.work.directory = state_.checkpoints.DirectoryOf(owner, path).string();
    task.work.optimizer = fields.Switch("optimizer").value_or(false);
    fields.Accept({"seq_id", "type", "weights_access_token"});
    fields.Finish();
    state_.CheckKind(record);
    const int64_t rank = record.facts.value("lora_rank", int64_t{0});
    if (!state_.facts.full && rank != model.adapters.rank)
      Refuse(Concat(path.Text(), ": has rank ", rank, ", the model ", model.adapters.rank));
    if (!state_.facts.full) CheckSwitches(record, model.adapters);
    if (state_.facts.full && path.kind != kTrainingKind)
      Refuse(path.Text() + ": has no state to train on from; load one of save_state");
    if (task.work.optimizer && path.kind != kTrainingKind) Refuse(path.Text() + ": has no optimizer state");
    task.finish = [this, id, path](const Held&, const TrainOutcome& outcome) {
      if (state_.facts.full && outcome.error.empty()) state_.versions.AreOf(path.Text());
      return Success({{"path", path.Text()}, {"model_id", id}, {"type", "load_weights"}});
    };
  });
}

Json TrainingModels::SaveForSampler(const std::string& owner, const Json& body) {
  return Queue(owner, body, [&](const TrainingModel& model, Task& task) {
    Fields fields(body, "");
    const std::string id = fields.Text("model_id").value_or("");
    const auto name = fields.Text("path");
    const auto seq = fields.Integer(kSamplingSeq, 0, INT64_MAX);
    if (name.has_value() == seq.has_value()) fields.Fail("path", Concat("wanted either it or ", kSamplingSeq));
    if (name && !IsCheckpointName(*name)) fields.Fail("path", "wanted a name of letters, digits, '.', '_' and '-'");
    const bool overwrite = fields.Switch("overwrite").value_or(false);
    fields.Accept({"seq_id", "type"});
    const Json facts = FactsOf(model, fields);
    fields.Finish();
    const CheckpointPath path{id, kSamplerKind, name.value_or("unnamed")};
    const bool no_files = state_.facts.full && seq;  // a sampler of the weights that there are
    const std::filesystem::path aside = no_files ? std::filesystem::path() : state_.checkpoints.Aside(owner, path);
    task.work.action = TrainAction::kSave;
    task.work.directory = aside.string();
    task.finish = [this, owner, path, aside, facts, overwrite, seq, session = model.session](
                      const Held& held, const TrainOutcome& outcome) {
      const bool ended = seq && sessions_.ended(held, session),
                 taken = !seq && !overwrite && state_.checkpoints.Exists(owner, path);
      if (!outcome.error.empty() || taken || ended) {
        if (!aside.empty()) std::filesystem::remove_all(aside);
        if (ended) return Failure("the session has ended", /*users_fault=*/false);
        return Failure(path.Text() + ": is there already; choose another name", true);
      }
      if (seq) {
        const std::string sampler = samplers_.AddUnnamed(held, owner, session, *seq, aside.string());
        return Success({{"path", nullptr}, {"sampling_session_id", sampler}, {"type", "save_weights_for_sampler"}});
      }
      state_.checkpoints.Commit(aside, owner, path, facts);
      if (state_.facts.full) state_.versions.AreOf(path.Text());
      return Success({{"path", path.Text()}, {"type", "save_weights_for_sampler"}});
    };
  });
}

}  // namespace trireme::tinker
