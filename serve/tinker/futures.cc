#include "serve/tinker/futures.h"

#include <utility>

#include "net/secret.h"

namespace trireme::tinker {
namespace {

HttpAnswer TryAgain(const std::string& id) {
  return {.status = 408, .body = JsonLine({{"type", "try_again"}, {"request_id", id}, {"queue_state", "active"}})};
}

}  // namespace

FutureResult Failure(const std::string& message, bool users_fault) {
  return Success({{"error", message}, {"category", users_fault ? "user" : "server"}});
}

std::string Futures::Add(const std::string& owner) {
  const std::string id = net::Hex(net::RandomBytes(16));
  futures_[id] = {.owner = owner};
  return id;
}

void Futures::Answer(const Future& future, const Waiting& waiting) {
  const bool proto = waiting.takes_proto && !future.result.proto.empty();
  waiting.reply->Send({.type = proto ? "application/x-protobuf" : "application/json",
                       .body = proto ? future.result.proto : future.result.json});
}

void Futures::Finish(const std::string& id, FutureResult result, double now) {
  const auto found = futures_.find(id);
  if (found == futures_.end() || found->second.done) return;
  Future& future = found->second;
  future.done = true;
  future.result = std::move(result);
  future.forget = now + times_.keep_seconds;
  for (const Waiting& waiting : std::exchange(future.polls, {})) Answer(future, waiting);
}

bool Futures::done(const std::string& id) const {
  const auto found = futures_.find(id);
  return found == futures_.end() || found->second.done;
}

void Futures::Poll(const std::string& id, const std::string& owner, bool takes_proto, std::shared_ptr<HttpReply> reply,
                   double now) {
  const auto found = futures_.find(id);
  if (found == futures_.end() || found->second.owner != owner) {
    const bool ours = found == futures_.end() && id.size() == 32;
    reply->Send({.status = ours ? 410 : 404, .body = JsonLine({{"detail", "request_id: is not known, or was forgotten"}})});
    return;
  }
  Waiting waiting{.reply = std::move(reply), .takes_proto = takes_proto, .until = now + times_.hold_seconds};
  if (!found->second.done) return found->second.polls.push_back(std::move(waiting));
  found->second.forget = now + times_.keep_seconds;
  Answer(found->second, waiting);
}

void Futures::Tick(double now) {
  std::erase_if(futures_, [&](const auto& entry) { return entry.second.done && entry.second.forget < now; });
  for (auto& [id, future] : futures_) {
    std::erase_if(future.polls, [&, &id = id](const Waiting& waiting) {
      if (waiting.reply->gone()) return true;
      if (waiting.until > now) return false;
      waiting.reply->Send(TryAgain(id));
      return true;
    });
  }
}

void Futures::ReleaseAll() {
  for (auto& [id, future] : futures_) {
    for (const Waiting& waiting : std::exchange(future.polls, {})) waiting.reply->Send(TryAgain(id));
  }
}

}  // namespace trireme::tinker
