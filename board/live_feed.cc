#include "board/live_feed.h"

#include <algorithm>
#include <sstream>

#include "core/base/json.h"
#include "core/base/text.h"

namespace trireme {
namespace {

constexpr size_t kMostFollowers = 64;
constexpr size_t kMostFollowed = 32;    // runs: their positions fit into a header
constexpr int64_t kMostRowsSent = 200;  // more are faster to read as columns
constexpr auto kSilence = std::chrono::seconds(15);

// {"run", "after", "position", "names", "rows": [[…], …]}; absent numbers are null.
std::string RowsText(const BoardRun& run, const LogPosition& at) {
  const Columns& columns = run.log.columns();
  Json rows = Json::array();
  for (int64_t row = at.rows; row < columns.rows(); ++row) {
    Json values = Json::array();
    for (size_t i = 0; i < columns.names().size(); ++i) values.push_back(columns.values(i)[static_cast<size_t>(row)]);
    rows.push_back(std::move(values));
  }
  return JsonLine({{"run", run.id},
                   {"after", ToText(at)},
                   {"position", ToText(run.log.position())},
                   {"names", columns.names()},
                   {"rows", std::move(rows)}});
}

}  // namespace

void LiveFeed::Follow(const RunFolders& runs, const std::string& at, std::shared_ptr<HttpReply> reply) {
  std::erase_if(followers_, [](const Follower& follower) { return follower.reply->gone(); });
  if (followers_.size() >= kMostFollowers) {
    throw ApiError{.status = 503, .message = "too many pages follow runs here; close one", .type = "server_error"};
  }
  Follower follower{.reply = std::move(reply), .positions = {}};
  std::istringstream items(at);
  for (std::string item; std::getline(items, item, ',');) {
    const size_t mark = item.find('@');
    const std::string run = item.substr(0, mark);
    const auto position = mark == std::string::npos ? std::nullopt : ParseLogPosition(item.substr(mark + 1));
    if (!position) throw ApiError{.message = "wanted at=RUN@POSITION,…", .param = "at"};
    if (runs.Find(run) == nullptr) throw ApiError{.status = 404, .message = "unknown run", .param = "at"};
    follower.positions[run] = *position;
  }
  if (follower.positions.size() > kMostFollowed) {
    throw ApiError{.message = Concat("at most ", kMostFollowed, " runs can be followed at once"), .param = "at"};
  }
  follower.reply->StartEvents({});
  Send(follower, "hello", "{}\nretry: 3000");
  followers_.push_back(std::move(follower));
  Push(runs);
}

// The fields of an event may come in any order, so that what follows the data's line names and numbers it.
void LiveFeed::Send(Follower& follower, const std::string& name, const std::string& data) {
  const std::string id =
      Join(follower.positions, ",", [](const auto& entry) { return entry.first + "@" + ToText(entry.second); });
  follower.reply->Event(data + "\nevent: " + name + "\nid: " + id);
  follower.spoken = Clock::now();
}

void LiveFeed::PushRun(Follower& follower, const BoardRun& run, LogPosition& at) {
  const LogPosition before = at, now = run.log.position();
  if (!run.log.caught_up() || before == now) return;
  at = now;
  if (run.log.Holds(before) && now.rows - before.rows <= kMostRowsSent) {
    Send(follower, "step", RowsText(run, before));
  } else {
    Send(follower, "reset", JsonLine({{"run", run.id}, {"position", ToText(now)}}));
  }
}

void LiveFeed::Push(const RunFolders& runs) {
  std::erase_if(followers_, [](const Follower& follower) { return follower.reply->gone(); });
  for (Follower& follower : followers_) {
    for (auto& [id, at] : follower.positions) {
      if (const auto run = runs.Find(id)) PushRun(follower, *run, at);
    }
    // A peer that vanished without a word is noticed when something is sent.
    if (Clock::now() - follower.spoken > kSilence) Send(follower, "alive", "{}");
  }
}

void LiveFeed::SayRunsChanged() {
  for (Follower& follower : followers_) Send(follower, "runs", "{}");
}

void LiveFeed::End() {
  for (Follower& follower : followers_) follower.reply->EndEvents();
  followers_.clear();
}

}  // namespace trireme
