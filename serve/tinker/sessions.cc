#include "serve/tinker/sessions.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "net/secret.h"
#include "serve/fields.h"
#include "serve/tinker/pages.h"
#include "serve/tinker/user_fields.h"

namespace trireme::tinker {

Json Sessions::Create(const std::string& owner, const Json& body) {
  const Held held(state_.mutex);
  state_.RefuseIfClosed(held);
  const RemoteFacts& facts = state_.facts;
  Fields fields(body, "");
  if (std::ssize(sessions_) >= facts.max_sessions)
    throw ApiError{.status = 429, .message = Concat(sessions_.size(), " sessions are open; try again later")};
  const Json metadata = UserMetadata(fields);
  const std::string id = net::Hex(net::RandomBytes(12));
  sessions_[id] = {.owner = owner,
                   .heard = state_.clock(),
                   .created = IsoTime(state_.checkpoints.now()),
                   .display_name = UserName(fields, "display_name"),
                   .user_metadata = metadata};
  return {
      {"type", "create_session"},
      {"session_id", id},
      {"warning_message",
       facts.full
           ? "this server trains one model with all its parameters: the ranks that clients ask for have no effect"
           : Concat("train_unembed: this server trains no adapters beside the head, they are left out; adapters have "
                    "ranks up to ",
                    facts.max_rank)}};
}

Json Sessions::Heartbeat(const std::string& owner, const Json& body) {
  const Held held(state_.mutex);
  Fields fields(body, "");
  Hear(held, owner, fields.Text("session_id").value_or(""));
  return {{"type", "session_heartbeat"}};
}

Json Sessions::Finish(const std::string& owner, const std::string& id) {
  const Held held(state_.mutex);
  Hear(held, owner, id);
  End(held, id, "the session has ended");
  return Json::object();
}

Json Sessions::List(const std::string& owner, int64_t limit, int64_t offset) const {
  const Held held(state_.mutex);
  std::vector<std::pair<std::string, std::string>> own;  // when it was created, and its id
  for (const auto& [id, session] : sessions_) {
    if (session.owner == owner) own.emplace_back(session.created, id);
  }
  std::ranges::sort(own, std::greater<>());
  Json ids = Json::array();
  for (const auto& [created, id] : own) ids.push_back(id);
  return Page("sessions", ids, limit, offset);
}

void Sessions::Hear(const Held& /*held*/, const std::string& owner, const std::string& id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second.owner != owner) {
    throw ApiError{.status = 404, .message = "session_id '" + id.substr(0, 80) + "': there is no such session"};
  }
  if (found->second.finished)
    throw ApiError{.status = 410, .message = "session_id '" + id + "': the session has ended"};
  found->second.heard = state_.clock();
}

bool Sessions::ended(const Held& /*held*/, const std::string& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() || found->second.finished;
}

void Sessions::End(const Held& held, const std::string& id, const std::string& why) {
  sessions_.at(id).finished = true;
  std::for_each(ended_.rbegin(), ended_.rend(), [&](const Ended& ended) { ended(held, id, why); });
  state_.wake();
}

void Sessions::Tick(const Held& held) {
  const double now = state_.clock(), most = state_.facts.session_seconds;
  std::vector<std::string> dead;
  for (const auto& [id, session] : sessions_) {
    if (!session.finished && now - session.heard > most) dead.push_back(id);
  }
  for (const std::string& id : dead) End(held, id, "the session's heartbeat stopped");
  std::erase_if(sessions_,
                [&](const auto& entry) { return entry.second.finished && now - entry.second.heard > 2 * most; });
}

}  // namespace trireme::tinker
