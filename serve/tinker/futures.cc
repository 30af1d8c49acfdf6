#include "serve/tinker/futures.h"

#include <utility>

#include "net/secret.h"

namespace trireme::tinker {

FutureResult Failure(const std::string& message, bool users_fault) {
  FutureResult result = Success({{"error", message}, {"category", users_fault ? "user" : "server"}});
  result.failed = true;
  return result;
}

HttpResponse Futures::TryAgain(const std::string& id, const std::string& owner) const {
  Json body = {{"type", "try_again"}, {"request_id", id}, {"queue_state", "active"}};
  const std::string why = pause_ ? pause_(owner) : "";
  if (!why.empty()) {
    body["queue_state"] = "paused_rate_limit";
    body["queue_state_reason"] = why;
  }
  return {.status = 408, .body = JsonLine(body)};
}

std::string Futures::Add(const std::string& owner, const std::string& topic) {
  const std::string id = net::Hex(net::RandomBytes(16));
  futures_[id] = {.owner = owner, .topic = topic};
  ++open_[owner];
  if (!topic.empty()) topics_[topic];
  return id;
}

int64_t Futures::open(const std::string& owner) const {
  const auto found = open_.find(owner);
  return found == open_.end() ? 0 : found->second;
}

int64_t Futures::open() const {
  int64_t sum = 0;
  for (const auto& [owner, count] : open_) sum += count;
  return sum;
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
  if (--open_[future.owner] == 0) open_.erase(future.owner);
  for (const Waiting& waiting : std::exchange(future.polls, {})) Answer(future, waiting);
  if (!future.topic.empty()) Announce(id, future);
}

void Futures::Forget(const std::string& id) {
  const auto found = futures_.find(id);
  if (found == futures_.end()) return;
  if (!found->second.done && --open_[found->second.owner] == 0) open_.erase(found->second.owner);
  futures_.erase(found);
}

void Futures::Announce(const std::string& id, const Future& future) {
  const auto found = topics_.find(future.topic);
  if (found == topics_.end()) return;  // it is over
  Topic& topic = found->second;
  Json done = {{"state", future.result.failed ? "failed" : "finished"}, {"request_id", id}};
  if (!future.result.failed)
    done["response_payload_uncompressed_size"] = std::max(future.result.json.size(), future.result.proto.size());
  topic.completions[++topic.last] = std::move(done);
  for (const Waiting& waiting : std::exchange(topic.polls, {})) AnswerTopic(topic, *waiting.reply);
}

void Futures::AnswerTopic(const Topic& topic, HttpReply& reply) {
  Json all = Json::array();
  for (const auto& [cursor, done] : topic.completions) all.push_back(done);
  reply.Send({.body = JsonLine({{"completions", std::move(all)}, {"cursor", topic.last}})});
}

void Futures::PollTopic(const std::string& name, const std::string& owner, int64_t cursor,
                        const std::vector<std::string>& retrieved, std::shared_ptr<HttpReply> reply, double now) {
  for (const std::string& id : retrieved) {
    const auto found = futures_.find(id);
    if (found != futures_.end() && found->second.owner == owner && found->second.done) futures_.erase(found);
  }
  Topic& topic = topics_[name];
  topic.completions.erase(topic.completions.begin(), topic.completions.upper_bound(cursor));
  if (!topic.completions.empty()) return AnswerTopic(topic, *reply);
  topic.polls.push_back({.reply = std::move(reply), .until = now + times_.hold_seconds});
}

void Futures::ForgetTopics(const std::string& prefix) {
  for (auto& [name, topic] : topics_) {
    if (!name.starts_with(prefix)) continue;
    for (const Waiting& waiting : std::exchange(topic.polls, {})) AnswerTopic(topic, *waiting.reply);
  }
  std::erase_if(topics_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
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
    reply->Send(
        {.status = ours ? 410 : 404, .body = JsonLine({{"detail", "request_id: is not known, or was forgotten"}})});
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
    std::erase_if(future.polls, [&, &id = id, &future = future](const Waiting& waiting) {
      if (waiting.reply->gone()) return true;
      if (waiting.until > now) return false;
      waiting.reply->Send(TryAgain(id, future.owner));
      return true;
    });
  }
  for (auto& [name, topic] : topics_) {
    std::erase_if(topic.polls, [&, &topic = topic](const Waiting& waiting) {
      if (waiting.reply->gone()) return true;
      if (waiting.until > now) return false;
      AnswerTopic(topic, *waiting.reply);
      return true;
    });
  }
}

void Futures::ReleaseAll() {
  for (auto& [id, future] : futures_) {
    for (const Waiting& waiting : std::exchange(future.polls, {})) waiting.reply->Send(TryAgain(id, future.owner));
  }
  for (auto& [name, topic] : topics_) {  // not an empty list: clients would ask again at once
    for (const Waiting& waiting : std::exchange(topic.polls, {})) waiting.reply->Send(TryAgain("", ""));
  }
}

}  // namespace trireme::tinker
