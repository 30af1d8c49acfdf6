// Requests of models: each becomes a unit of work in the model's queue and a future. What is wrong with a request is
// found here; it keeps its place in the order, since the client has numbered it already.
#include <algorithm>
#include <climits>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/log.h"
#include "net/secret.h"
#include "serve/fields.h"
#include "serve/tinker/json_data.h"
#include "serve/tinker/proto_data.h"
#include "serve/tinker/room.h"
#include "serve/tinker/user_fields.h"

namespace trireme::tinker {
namespace {

constexpr char kCreatedFirst[] = "model_seq_id";

std::string IdOf(Fields& fields, const std::string& name) {
  const auto id = fields.Text(name);
  if (!id) fields.Fail(name, "is missing");
  return *id;
}

int64_t SeqOf(Fields& fields, const std::string& name) {
  const auto seq = fields.Integer(name, 0, INT64_MAX);
  if (!seq) fields.Fail(name, "is missing");
  return *seq;
}

Json FutureBody(const std::string& future, const std::string& model) {
  return {{"request_id", future}, {"model_id", model}};
}

TrainedPairs ReadPairs(const Json* json, int64_t max_rank) {
  TrainedPairs pairs{.seed = static_cast<uint64_t>(std::hash<std::string>()(net::RandomBytes(8)) >> 1)};
  if (json == nullptr)
    Refuse("lora_config: is missing; this server trains LoRA adapters, not full models (--train-full does)");
  Fields fields(*json, "lora_config");
  pairs.rank = fields.Integer("rank", 1, INT_MAX).value_or(32);
  if (pairs.rank > max_rank) {
    fields.Fail("rank", Concat(pairs.rank, " is beyond this server's ", max_rank,
                               "; ask for less, or start it with --train-max-rank"));
  }
  if (const auto seed = fields.Integer("seed", INT64_MIN, INT64_MAX))
    pairs.seed = static_cast<uint64_t>(*seed) & (UINT64_MAX >> 1);
  pairs.attention = fields.Switch("train_attn").value_or(true);
  pairs.mlp = fields.Switch("train_mlp").value_or(true);
  fields.Switch("train_unembed");  // said in every session's warning_message
  fields.Accept({"type"});
  fields.Finish();
  if (!pairs.attention && !pairs.mlp) Refuse("lora_config: neither train_attn nor train_mlp: nothing would be trained");
  return pairs;
}

void CheckOptimizer(const Json* json) {
  if (json == nullptr) return;
  Fields fields(*json, "optimizer_config");
  const std::string type = fields.Text("type").value_or("adamw");
  if (type != "adamw") Refuse("optimizer_config.type: " + type.substr(0, 40) + " is not supported; wanted adamw");
  fields.Accept({"version"});
  fields.Finish();
}

AdamNumbers ReadAdam(Fields& request) {
  request.Refuse("optimizer_params", "is not supported; send adam_params");
  AdamNumbers adam;
  const Json* json = request.Find("adam_params");
  if (json == nullptr) return adam;
  Fields fields(*json, "adam_params");
  adam.learning_rate = fields.Number("learning_rate", 0, 1e6).value_or(adam.learning_rate);
  adam.beta1 = fields.Number("beta1", 0, 1).value_or(adam.beta1);
  adam.beta2 = fields.Number("beta2", 0, 1).value_or(adam.beta2);
  adam.eps = fields.Number("eps", 0, 1e6).value_or(adam.eps);
  adam.weight_decay = fields.Number("weight_decay", 0, 1e6).value_or(0);
  adam.grad_clip_norm = fields.Number("grad_clip_norm", 0, 1e30).value_or(0);
  if (adam.beta1 >= 1 || adam.beta2 >= 1) Refuse("adam_params: betas are below 1");
  fields.Accept({"type"});
  fields.Finish();
  return adam;
}

std::string SwitchText(bool attention, bool mlp) {
  const auto text = [](bool on) { return on ? "true" : "false"; };
  return Concat("train_attn=", text(attention), ", train_mlp=", text(mlp));
}

// A checkpoint of other pairs would be loaded in part.
void CheckSwitches(const CheckpointRecord& record, const TrainedPairs& pairs) {
  const bool attention = record.facts.value("train_attn", true), mlp = record.facts.value("train_mlp", true);
  if (attention == pairs.attention && mlp == pairs.mlp) return;
  Refuse(Concat(record.path.Text(), ": was trained with ", SwitchText(attention, mlp), ", the model has ",
                SwitchText(pairs.attention, pairs.mlp), "; create the model with the checkpoint's lora_config"));
}

// Of [N, K] targets the rows of one datum, one after another, become its columns again.
Json LogprobsJson(const std::vector<std::vector<float>>& rows, const std::vector<int64_t>& columns) {
  Json outputs = Json::array();
  size_t row = 0;
  for (const int64_t k : columns) {
    Json data = Json::array(), shape = Json::array({rows[row].size()});
    for (size_t i = 0; i < rows[row].size(); ++i) {
      for (int64_t column = 0; column < std::max<int64_t>(k, 1); ++column)
        data.push_back(rows[row + static_cast<size_t>(column)][i]);
    }
    if (k > 0) shape.push_back(k);
    row += static_cast<size_t>(std::max<int64_t>(k, 1));
    outputs.push_back({{"logprobs", {{"data", std::move(data)}, {"dtype", "float32"}, {"shape", std::move(shape)}}}});
  }
  return outputs;
}

}  // namespace

Json Room::Queue(const std::string& owner, const Json& body, const std::function<void(Model&, Task&)>& make) {
  Fields fields(body, "");
  return Enqueue(owner, IdOf(fields, "model_id"), SeqOf(fields, "seq_id"), make);
}

Json Room::Enqueue(const std::string& owner, const std::string& id, int64_t seq,
                   const std::function<void(Model&, Task&)>& make) {
  const std::lock_guard lock(mutex_);
  RefuseIfClosed();
  Model& model = ModelOf(owner, id);
  SessionOf(owner, model.session);
  if (const auto known = model.queue.Known(seq)) return FutureBody(*known, id);
  if (!model.queue.waits_for(seq)) {  // later ones may wait for that one
    RefuseIfFull(owner);
    if (static_cast<int64_t>(model.queue.size()) >= facts_.max_queued) {
      throw ApiError{.status = 429, .message = "too many requests of this model are waiting; try again later"};
    }
  }
  Task task{.future = futures_.Add(owner)};
  task.work.model = id;
  try {
    make(model, task);
  } catch (const ApiError& error) {
    task = {.future = task.future, .refusal = error.message, .users_fault = error.status < 500};
  } catch (const std::exception& error) {  // a full disk, no memory: later requests must not wait for this one
    TRIREME_LOG(ERROR) << "remote training: request " << seq << " of " << id << ": " << error.what();
    task = {.future = task.future, .refusal = "the server could not take it; its log says why", .users_fault = false};
  }
  const std::string future = task.future;
  model.last_request = IsoTime();
  if (model.queue.size() == 0) company_.Came(id, clock_());
  model.queue.Add(seq, std::move(task), clock_());
  wake_();
  return FutureBody(future, id);
}

// The lock is held.
void Room::RefuseSecondModel(const std::string& owner) const {
  if (facts_.full && !models_.empty()) {
    throw ApiError{
        .status = 400,
        .message =
            "this server trains one model, in full (--train-full), and one is in training; end its session first"};
  }
  if (std::ssize(models_) >= facts_.max_models) {
    throw ApiError{
        .status = 400,
        .message = Concat("this server trains ", facts_.max_models, " models at once; end another session first")};
  }
  const auto own = std::ranges::count_if(models_, [&](const auto& entry) { return entry.second.owner == owner; });
  if (facts_.quota.models > 0 && own >= facts_.quota.models) {
    throw ApiError{
        .status = 400,
        .message = Concat("this key may train ", facts_.quota.models, " models at once; end another session first")};
  }
}

Json Room::CreateModel(const std::string& owner, const Json& body) {
  const std::lock_guard lock(mutex_);
  RefuseIfClosed();
  Fields fields(body, "");
  const std::string session_id = IdOf(fields, "session_id");
  const int64_t seq = SeqOf(fields, kCreatedFirst);
  Session& session = SessionOf(owner, session_id);
  const std::string id = Concat(session_id, ":train:", seq);
  if (const auto known = session.model_answers.find(seq); known != session.model_answers.end()) {
    return FutureBody(known->second, id);
  }
  const std::string base = fields.Text("base_model").value_or("");
  if (base != facts_.model_name) {
    throw ApiError{
        .status = 400,
        .message = "base_model '" + base.substr(0, 120) + "' is not served here; wanted '" + facts_.model_name + "'"};
  }
  RefuseSecondModel(owner);
  CheckOptimizer(fields.Find("optimizer_config"));
  Model model{.owner = owner, .session = session_id, .pairs = {}};
  const Json* lora = fields.Find("lora_config");
  model.pairs = facts_.full ? ReadFull(lora) : ReadPairs(lora, facts_.max_rank);
  model.user_metadata = UserMetadata(fields);
  fields.Accept({"type"});
  fields.Finish();
  model.last_request = IsoTime();
  Task task{.future = futures_.Add(owner),
            .work = {.action = TrainAction::kCreate, .model = id, .pairs = model.pairs},
            .finish = [id](const TrainOutcome&) { return Success({{"model_id", id}, {"type", "create_model"}}); }};
  session.model_answers[seq] = task.future;
  const std::string future = task.future;
  model.queue.Add(0, std::move(task), clock_());  // clients count their requests from 1
  models_[id] = std::move(model);
  wake_();
  return FutureBody(future, id);
}

Json Room::UnloadModel(const std::string& owner, const Json& body) {
  const std::lock_guard lock(mutex_);
  Fields fields(body, "");
  const std::string id = IdOf(fields, "model_id");
  ModelOf(owner, id);
  DropModel(id, "the model was unloaded");
  models_.erase(id);
  const std::string future = futures_.Add(owner);
  futures_.Finish(future, Success({{"model_id", id}, {"type", "unload_model"}}), clock_());
  return FutureBody(future, id);
}

Json Room::GetInfo(const std::string& owner, const Json& body) {
  const std::lock_guard lock(mutex_);
  Fields fields(body, "");
  const std::string id = IdOf(fields, "model_id");
  const Model& model = ModelOf(owner, id);
  return {{"type", "get_info"},
          {"model_data", {{"model_name", facts_.model_name}, {"tokenizer_id", facts_.model_directory}}},
          {"model_id", id},
          {"is_lora", !facts_.full},
          {"lora_rank", facts_.full ? Json() : Json(model.pairs.rank)},
          {"model_name", facts_.model_name}};
}

void Room::MakePass(Task& task, const RawLoss& raw, bool backward) const {
  LossRequest request = CheckLoss(raw, facts_.limits);
  if (request.base && facts_.full)
    Refuse("loss_fn_config.disable_lora: this server trains the model in full; there is no adapter to leave out");
  if (request.base && backward) Refuse("loss_fn_config.disable_lora: only of forward");
  task.work.action = TrainAction::kPass;
  task.work.rows = std::move(request.rows);
  task.work.loss = request.loss;
  task.work.numbers = request.numbers;
  task.work.backward = backward;
  task.work.base = request.base;
  task.finish = [columns = std::move(request.columns), loss = request.loss](const TrainOutcome& outcome) {
    if (!outcome.error.empty()) return FutureResult();
    const Json metrics = {{"loss:sum", outcome.loss}};
    FutureResult result = Success({{"loss_fn_output_type", "TensorData"},
                                   {"loss_fn_outputs", LogprobsJson(outcome.logprobs, columns)},
                                   {"metrics", metrics}});
    result.proto = PassOutputProto(outcome, columns);
    return result;
  };
}

Json Room::Pass(const std::string& owner, const Json& body, const std::string& name) {
  return Queue(owner, body, [&](Model&, Task& task) {
    Fields fields(body, "");
    const Json* input = fields.Find(name);
    fields.Accept({"model_id", "seq_id", "type"});
    if (input == nullptr) fields.Fail(name, "is missing");
    fields.Finish();
    MakePass(task, ReadLossJson(*input, name), name == "forward_backward_input");
  });
}

Json Room::PassProto(const std::string& owner, const std::string& bytes) {
  ProtoPass pass = ReadPassProto(bytes);
  return Enqueue(owner, pass.model_id, pass.seq_id, [&](Model&, Task& task) {
    if (!pass.refusal.empty()) Refuse(pass.refusal);
    MakePass(task, pass.loss, !pass.forward_only);
  });
}

Json Room::Step(const std::string& owner, const Json& body) {
  return Queue(owner, body, [&](Model&, Task& task) {
    Fields fields(body, "");
    task.work.action = TrainAction::kStep;
    task.work.adam = ReadAdam(fields);
    fields.Accept({"model_id", "seq_id", "type"});
    fields.Finish();
    task.finish = [](const TrainOutcome& outcome) {
      return Success({{"type", "optim_step"},
                      {"metrics", {{"grad_norm", outcome.grad_norm}, {"step", static_cast<double>(outcome.step)}}}});
    };
  });
}

Json Room::FactsOf(const Model& model, Fields& fields) const {
  const Json metadata = UserMetadata(fields);
  Json facts = {
      {"base_model", facts_.model_name},     {"lora_rank", model.pairs.rank},
      {"train_attn", model.pairs.attention}, {"train_mlp", model.pairs.mlp},
      {"time", IsoTime(checkpoints_.now())}, {"user_metadata", metadata.is_null() ? model.user_metadata : metadata}};
  if (facts_.full) facts["full"] = true;
  if (const auto seconds = fields.Integer("ttl_seconds", 3600, int64_t{1} << 40))
    facts["expires"] = checkpoints_.now() + *seconds;
  return facts;
}

Json Room::Save(const std::string& owner, const Json& body) { return SaveNamed(owner, body, kTrainingKind); }

Json Room::SaveExternal(const std::string& owner, const Json& body) { return SaveNamed(owner, body, kExternalKind); }

Json Room::SaveNamed(const std::string& owner, const Json& body, const std::string& kind) {
  return Queue(owner, body, [&](Model& model, Task& task) {
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
    const std::filesystem::path aside = checkpoints_.Aside(owner, path);
    task.work.action = TrainAction::kSave;
    task.work.directory = aside.string();
    task.work.optimizer = kind == kTrainingKind;
    task.finish = [this, owner, path, aside, facts, overwrite,
                   type =
                       kind == kTrainingKind ? "save_weights" : "save_weights_external"](const TrainOutcome& outcome) {
      if (outcome.error.empty() && (overwrite || !checkpoints_.Exists(owner, path))) {
        checkpoints_.Commit(aside, owner, path, facts);
        if (facts_.full) versions_.AreOf(path.Text());
        return Success({{"path", path.Text()}, {"type", type}});
      }
      std::filesystem::remove_all(aside);
      return Failure(path.Text() + ": is there already; choose another name, or ask for overwrite", true);
    };
  });
}

Json Room::Load(const std::string& owner, const Json& body) {
  if (!body.is_object() || !body.contains("model_id"))
    Refuse("load_weights: model_id is missing; create the model first");
  return Queue(owner, body, [&](Model& model, Task& task) {
    Fields fields(body, "");
    const CheckpointPath path = ParsePath(IdOf(fields, "path"));
    const std::string id = IdOf(fields, "model_id");
    const CheckpointRecord record = checkpoints_.Find(owner, path);
    task.work.action = TrainAction::kLoad;
    task.work.directory = checkpoints_.DirectoryOf(owner, path).string();
    task.work.optimizer = fields.Switch("optimizer").value_or(false);
    fields.Accept({"seq_id", "type", "weights_access_token"});
    fields.Finish();
    CheckKind(record);
    const int64_t rank = record.facts.value("lora_rank", int64_t{0});
    if (!facts_.full && rank != model.pairs.rank)
      Refuse(Concat(path.Text(), ": has rank ", rank, ", the model ", model.pairs.rank));
    if (!facts_.full) CheckSwitches(record, model.pairs);
    if (facts_.full && path.kind != kTrainingKind)
      Refuse(path.Text() + ": has no state to train on from; load one of save_state");
    if (task.work.optimizer && path.kind != kTrainingKind) Refuse(path.Text() + ": has no optimizer state");
    task.finish = [this, id, path](const TrainOutcome& outcome) {
      if (facts_.full && outcome.error.empty()) versions_.AreOf(path.Text());
      return Success({{"path", path.Text()}, {"model_id", id}, {"type", "load_weights"}});
    };
  });
}

}  // namespace trireme::tinker
