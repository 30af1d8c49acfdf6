#include "serve/tinker/remote_service.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "serve/fields.h"

namespace trireme::tinker {
namespace {

double Rounded(double rate) { return std::round(rate * 10) / 10; }

}  // namespace

void RemoteService::Connect(SampleGenerator* generator, std::function<void()> wake) {
  const Held held(state_.mutex);
  state_.generator = generator;
  state_.wake = std::move(wake);
}

Json RemoteService::Capabilities() const {
  const Held held(state_.mutex);
  return {{"supported_models",
           {{{"model_name", state_.facts.model_name},
             {"max_context_length", state_.facts.limits.context},
             {"trainable", true},
             {"sampleable", state_.generator != nullptr}}}}};
}

void RemoteService::Retrieve(const std::string& owner, const Json& body, bool takes_proto,
                             std::shared_ptr<HttpReply> reply) {
  const Held held(state_.mutex);
  Fields fields(body, "");
  const std::string id = fields.Text("request_id").value_or("");
  if (state_.closed && !state_.futures.done(id)) {
    reply->Send(
        {.status = 408, .body = JsonLine({{"type", "try_again"}, {"request_id", id}, {"queue_state", "active"}})});
    return;
  }
  state_.futures.Poll(id, owner, takes_proto, std::move(reply), state_.clock());
}

std::vector<std::string> RemoteService::ModelsOf(const Held& held, const std::string& session) const {
  std::vector<std::string> ids;
  for (const auto& [id, model] : models.all(held)) {
    if (model.session == session) ids.push_back(id);
  }
  return ids;
}

Json RemoteService::SessionInfo(const std::string& owner, const std::string& id) const {
  const Held held(state_.mutex);
  const auto found = sessions.all(held).find(id);
  if (found == sessions.all(held).end() || found->second.owner != owner) {
    throw ApiError{.status = 404, .message = "there is no such session"};
  }
  return {{"training_run_ids", ModelsOf(held, id)},
          {"sampler_ids", samplers.OfSession(held, id)},
          {"user_metadata", found->second.user_metadata},
          {"display_name", found->second.display_name.empty() ? Json() : Json(found->second.display_name)}};
}

Json RemoteService::SessionsJson(const Held& held, const std::optional<std::string>& owner) const {
  Json list = Json::array();
  for (const auto& [id, session] : sessions.all(held)) {
    if (session.finished || (owner && session.owner != *owner)) continue;
    list.push_back({{"session_id", id},
                    {"display_name", session.display_name},
                    {"created", session.created},
                    {"silent_seconds", std::round(state_.clock() - session.heard)},
                    {"models", ModelsOf(held, id).size()},
                    {"samplers", samplers.OfSession(held, id).size()}});
  }
  return list;
}

Json RemoteService::ModelsJson(const Held& held, const std::optional<std::string>& owner) const {
  Json list = Json::array();
  for (const auto& [id, model] : models.all(held)) {
    if (owner && model.owner != *owner) continue;
    list.push_back({{"model_id", id},
                    {"rank", model.adapters.rank},
                    {"queued", model.queue.size()},
                    {"steps", model.steps},
                    {"tokens", model.tokens.total()},
                    {"tokens_per_second", Rounded(model.tokens.per_second(state_.clock()))},
                    {"last_request", model.last_request}});
  }
  return list;
}

Json RemoteService::Status(const std::optional<std::string>& owner) const {
  const Held held(state_.mutex);
  const auto alive =
      std::ranges::count_if(sessions.all(held), [](const auto& entry) { return !entry.second.finished; });
  return {{"sessions", SessionsJson(held, owner)},
          {"models", ModelsJson(held, owner)},
          {"totals",
           {{"sessions", alive},
            {"models", models.all(held).size()},
            {"unfinished", state_.futures.open()},
            {"trained_tokens_per_second", Rounded(models.tokens_per_second(held))},
            {"sampled_tokens_per_second", Rounded(samplers.tokens_per_second(held))}}}};
}

void RemoteService::Tick() {
  const Held held(state_.mutex);
  state_.futures.Tick(state_.clock());
  samplers.Tick(held);
  models.Tick(held);
  sessions.Tick(held);
}

void RemoteService::Close() {
  const Held held(state_.mutex);
  state_.closed = true;
  state_.futures.ReleaseAll();
}

}  // namespace trireme::tinker
