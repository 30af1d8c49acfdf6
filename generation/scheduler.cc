#include "generation/scheduler.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr int64_t kMostScored = 256;  // tokens of a row in a step: each has a line of logits

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options) : options_(options), pool_(options.blocks) {
  if (options.max_rows > options.max_batched_tokens) {
    throw InputError("a step of ", options.max_batched_tokens, " tokens for ", options.max_rows,
                     " rows: each row needs one; allow more tokens or fewer rows");
  }
}

int64_t Scheduler::BlocksFor(int64_t tokens) const { return (tokens + options_.block_size - 1) / options_.block_size; }

Error Scheduler::TooLong(int64_t tokens) const {
  return InputError("a row of ", tokens, " tokens: the cache holds ", pool_.size() * options_.block_size,
                    "; allow more of them, or fewer new tokens");
}

int64_t Scheduler::Add(RowRequest request) {
  const auto size = static_cast<int64_t>(request.prompt.size());
  TRIREME_CHECK(size > 0);
  if (!options_.grows && BlocksFor(size + 1) > pool_.size()) {
    throw InputError("a prompt of ", size, " tokens: the cache holds ", pool_.size() * options_.block_size,
                     ", the next token included");
  }
  rows_[next_] = {.tokens = std::move(request.prompt),
                  .prompt = size,
                  .salt = std::move(request.salt),
                  .after = request.after,
                  .contents = std::move(request.contents),
                  .scores_prompt = request.scores_prompt};
  waiting_.insert(next_);
  return next_++;
}

void Scheduler::Remove(int64_t id) {
  const auto found = rows_.find(id);
  if (found == rows_.end()) return;
  ReleaseBlocks(found->second);
  running_.erase(id);
  waiting_.erase(id);
  rows_.erase(found);
}

// The last blocks first: they are the first to be given to others, for their prefix is the rarest.
void Scheduler::ReleaseBlocks(Row& row) {
  for (auto block = row.blocks.rbegin(); block != row.blocks.rend(); ++block) pool_.Release(*block);
  row.blocks.clear();
  row.computed = row.published = 0;
}

std::vector<int32_t> Scheduler::FirstBlocks() const {
  std::vector<int32_t> found;
  for (const int64_t id : running_) {
    const Row& row = rows_.at(id);
    if (!row.blocks.empty()) found.push_back(row.blocks.front());
  }
  return found;
}

std::vector<RowStep> Scheduler::Plan() {
  plan_.clear();
  const auto active = std::min(options_.max_rows, static_cast<int64_t>(running_.size() + waiting_.size()));
  most_rows_ = static_cast<size_t>((active + options_.passes - 1) / options_.passes);
  budget_ = std::max(options_.max_batched_tokens / options_.passes, static_cast<int64_t>(most_rows_));
  const int64_t preemptions = counts_.preemptions;
  for (const bool decoding : {true, false}) {
    for (const int64_t id : std::vector<int64_t>(running_.begin(), running_.end())) {
      if (running_.contains(id) && (rows_.at(id).missing() == 1) == decoding) Schedule(id);
    }
  }
  if (preemptions == counts_.preemptions) Admit();
  for (const RowStep& step : plan_) rows_.at(step.row).in_flight = true;
  return plan_;
}

void Scheduler::Schedule(int64_t id) {
  Row& row = rows_.at(id);
  if (row.in_flight || plan_.size() >= most_rows_) return;
  const int64_t most = row.scores() ? std::min(budget_, kMostScored) : budget_;
  const int64_t count = WithoutCut(row, std::min(row.missing(), most));
  if (count == 0 || !Reserve(id, row.computed + count)) return;
  budget_ -= count;
  plan_.push_back({.row = id,
                   .past = row.computed,
                   .fresh = count,
                   .samples = count == row.missing(),
                   .decodes = row.computed >= row.prompt && row.missing() == 1,
                   .scored = row.scores() ? std::min(count, row.prompt - 1 - row.computed) : 0});
}

// Without the beginning of an image that would be cut: in a step of its own it may be whole.
int64_t Scheduler::WithoutCut(const Row& row, int64_t count) {
  const int64_t end = row.computed + count;
  for (const ContentSpan& span : row.contents) {
    if (span.begin > row.computed && span.begin < end && end < span.end) return span.begin - row.computed;
  }
  return count;
}

// Blocks for the row's first `tokens`; false if the row itself had to give way.
bool Scheduler::Reserve(int64_t id, int64_t tokens) {
  while (!TakeBlocks(rows_.at(id), BlocksFor(tokens))) {
    if (options_.grows) {
      pool_.Grow(std::max<int64_t>(pool_.size() / 2, 1));
      continue;
    }
    const int64_t last = *running_.rbegin();
    if (running_.size() == 1) throw TooLong(tokens);
    Preempt(last);
    if (last == id) return false;
  }
  return true;
}

bool Scheduler::TakeBlocks(Row& row, int64_t count) {
  while (static_cast<int64_t>(row.blocks.size()) < count) {
    const std::optional<int32_t> block = pool_.Take();
    if (!block) return false;
    row.blocks.push_back(*block);
  }
  return true;
}

void Scheduler::Preempt(int64_t id) {
  const auto planned = std::find_if(plan_.begin(), plan_.end(), [&](const RowStep& step) { return step.row == id; });
  if (planned != plan_.end()) {
    budget_ += planned->fresh;
    plan_.erase(planned);
  }
  Row& row = rows_.at(id);
  ReleaseBlocks(row);
  row.preempted = row.in_flight;
  running_.erase(id);
  waiting_.insert(id);
  ++counts_.preemptions;
}

void Scheduler::Admit() {
  for (const int64_t id : std::vector<int64_t>(waiting_.begin(), waiting_.end())) {
    const bool full = static_cast<int64_t>(running_.size()) >= options_.max_rows || plan_.size() >= most_rows_;
    if (full || budget_ == 0) return;
    Row& row = rows_.at(id);
    if (row.in_flight || !IsReady(row)) continue;
    MatchPrefix(row);
    if (!Fits(row)) return;
    if (row.cached < 0) row.cached = row.computed;
    counts_.prefix_queries += static_cast<int64_t>(row.tokens.size());
    counts_.prefix_hits += row.computed;
    waiting_.erase(id);
    running_.insert(id);
    Schedule(id);
  }
}

// A row starts only where all it has fits, or it would preempt others at once.
bool Scheduler::Fits(Row& row) {
  const auto needed = BlocksFor(static_cast<int64_t>(row.tokens.size())) - static_cast<int64_t>(row.blocks.size());
  if (options_.grows || needed <= pool_.available()) return true;
  if (running_.empty()) throw TooLong(static_cast<int64_t>(row.tokens.size()));
  ReleaseBlocks(row);
  return false;
}

bool Scheduler::IsReady(const Row& row) const {
  if (!row.after) return true;
  const auto leader = rows_.find(*row.after);
  return leader == rows_.end() || leader->second.computed >= leader->second.prompt;
}

// What a full block of the row is found by: its tokens, then what they stand for.
std::vector<int64_t> Scheduler::KeyOf(const Row& row, int64_t block) const {
  const int64_t begin = block * options_.block_size, end = begin + options_.block_size;
  std::vector<int64_t> key(row.tokens.begin() + begin, row.tokens.begin() + end);
  for (const ContentSpan& span : row.contents) {
    if (span.begin >= end || span.end <= begin) continue;
    key.push_back(span.begin - begin);
    key.insert(key.end(), span.content.begin(), span.content.end());
  }
  return key;
}

// The last token is always computed: its logits are wanted.
void Scheduler::MatchPrefix(Row& row) {
  row.prefix = pool_.Root(SaltOf(row));
  if (!options_.prefix_cache || row.scores()) return;
  for (int64_t block = 0; (block + 1) * options_.block_size < std::ssize(row.tokens); ++block) {
    const auto found = pool_.Find(row.prefix, KeyOf(row, block));
    if (!found) break;
    pool_.Share(found->block);
    row.blocks.push_back(found->block);
    row.prefix = found->prefix;
  }
  row.published = static_cast<int64_t>(row.blocks.size());
  row.computed = row.published * options_.block_size;
}

void Scheduler::Computed(const std::vector<RowStep>& step) {
  for (const RowStep& done : step) {
    const auto found = rows_.find(done.row);
    if (found == rows_.end()) continue;  // removed in the meantime
    Row& row = found->second;
    row.in_flight = false;
    if (std::exchange(row.preempted, false)) continue;
    row.computed = done.past + done.fresh;
    if (!options_.prefix_cache) continue;
    for (; (row.published + 1) * options_.block_size <= row.computed; ++row.published) {
      row.prefix = pool_.Publish(row.blocks[static_cast<size_t>(row.published)], row.prefix, KeyOf(row, row.published));
    }
  }
}

void Scheduler::Append(int64_t id, int64_t token) {
  Row& row = rows_.at(id);
  const int64_t before = ClassOf(row);
  row.tokens.push_back(token);
  if (ClassOf(row) == before) return;
  ReleaseBlocks(row);
  if (running_.contains(id)) MatchPrefix(row);
}

int64_t Scheduler::ClassOf(const Row& row) const {
  return options_.length_class ? options_.length_class(std::ssize(row.tokens)) : 0;
}

// Blocks of rows with different rotary embeddings are not shared.
std::string Scheduler::SaltOf(const Row& row) const {
  return options_.length_class ? Concat(ClassOf(row), ":", row.salt) : row.salt;
}

SchedulerCounts Scheduler::counts() const {
  SchedulerCounts counts = counts_;
  counts.running = static_cast<int64_t>(running_.size());
  counts.waiting = static_cast<int64_t>(waiting_.size());
  return counts;
}

}  // namespace trireme
