// A stand-in for a model: its "keys" are digests of everything up to a token, kept in blocks as the scheduler
// says, and the next token follows from the digest that is read back. A block that is shared wrongly,
// overwritten while it is in use or lost changes the tokens. Whatever the size of the cache and the steps,
// rows get the tokens that they get alone, and no block is lost; also where several steps are in flight, each
// stage with a memory of its own.
#include "generation/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <random>

#include "core/base/error.h"

namespace trireme {
namespace {

using Tokens = std::vector<int64_t>;
constexpr int64_t kVocabulary = 50;

uint64_t Mix(uint64_t before, int64_t token) {
  uint64_t x = before * 6364136223846793005ULL + static_cast<uint64_t>(token) + 1442695040888963407ULL;
  return x ^ (x >> 29U);
}
// All digests of a row change with the class of its length.
uint64_t Start(const std::string& salt, int64_t length_class) {
  return Mix(std::hash<std::string>()(salt), length_class);
}
using LengthClasses = std::function<int64_t(int64_t)>;
int64_t ClassOf(const LengthClasses& classes, const Tokens& tokens) {
  return classes ? classes(std::ssize(tokens)) : 0;
}
int64_t NextToken(uint64_t digest) { return static_cast<int64_t>((digest >> 7U) % kVocabulary); }

struct Wish {
  Tokens prompt = {};
  int64_t count = 1;
  std::string salt = {};
  std::optional<size_t> after = {};  // an earlier wish
  std::vector<ContentSpan> contents = {};
};

// Tokens that stand for something are that, too.
uint64_t MixAt(uint64_t before, const Tokens& tokens, int64_t i, const std::vector<ContentSpan>& contents) {
  uint64_t digest = Mix(before, tokens[static_cast<size_t>(i)]);
  for (const ContentSpan& span : contents) {
    if (span.begin <= i && i < span.end) digest = Mix(Mix(digest, span.content[3]), i - span.begin);
  }
  return digest;
}

// Each token from all tokens before it, computed anew.
Tokens Alone(const Wish& wish, const LengthClasses& classes = {}) {
  Tokens tokens = wish.prompt;
  for (int64_t i = 0; i < wish.count; ++i) {
    uint64_t digest = Start(wish.salt, ClassOf(classes, tokens));
    for (int64_t k = 0; k < std::ssize(tokens); ++k) digest = MixAt(digest, tokens, k, wish.contents);
    tokens.push_back(NextToken(digest));
  }
  return {tokens.begin() + std::ssize(wish.prompt), tokens.end()};
}

class StandIn {
 public:
  explicit StandIn(const SchedulerOptions& options) : scheduler(options) {}

  int64_t Add(const Wish& wish, std::optional<int64_t> after = {}) {
    const int64_t id =
        scheduler.Add({.prompt = wish.prompt, .salt = wish.salt, .after = after, .contents = wish.contents});
    rows_[id] = {wish, {}};
    return id;
  }
  void Cancel(int64_t id) {
    scheduler.Remove(id);
    rows_.erase(id);
  }

  // Every stage computes another step. Returns the rows that ended, with their tokens.
  std::map<int64_t, Tokens> Step() {
    flights_.push_front(Planned());
    std::map<int64_t, uint64_t> last;
    for (size_t stage = 0; stage < flights_.size(); ++stage) {
      last.clear();
      for (const Flight& row : flights_[stage]) last[row.step.row] = Compute(row, memory_[stage]);
    }
    std::map<int64_t, Tokens> ended;
    if (std::ssize(flights_) < scheduler.options().passes) return ended;
    std::vector<RowStep> step;
    for (const Flight& row : flights_.back()) step.push_back(row.step);
    flights_.pop_back();
    scheduler.Computed(step);
    for (const RowStep& row : step) {
      if (!row.samples || !rows_.contains(row.row)) continue;
      auto& [wish, written] = rows_.at(row.row);
      written.push_back(NextToken(last.at(row.row)));
      if (static_cast<int64_t>(written.size()) == wish.count) {
        ended[row.row] = written;
        Cancel(row.row);
      } else {
        scheduler.Append(row.row, written.back());
      }
    }
    return ended;
  }

  Scheduler scheduler;
  int64_t steps = 0, computed = 0, idle = 0;  // idle: steps without a row while there are some

 private:
  // A row of a step, as it was planned.
  struct Flight {
    RowStep step;
    std::string salt;
    Tokens tokens;
    std::vector<int32_t> blocks;
    std::vector<ContentSpan> contents;
  };

  std::vector<Flight> Planned() {
    const std::vector<RowStep> step = scheduler.Plan();
    Check(step);
    std::vector<Flight> rows;
    for (const RowStep& row : step) {
      const Wish& wish = rows_.at(row.row).first;
      rows.push_back({row, wish.salt, scheduler.tokens(row.row), scheduler.blocks(row.row), wish.contents});
    }
    return rows;
  }

  void Check(const std::vector<RowStep>& step) {
    const SchedulerOptions& options = scheduler.options();
    int64_t tokens = 0;
    std::set<int64_t> seen;
    for (const RowStep& row : step) {
      tokens += row.fresh;
      EXPECT_TRUE(seen.insert(row.row).second) << "twice in a step";
      EXPECT_GT(row.fresh, 0);
      EXPECT_GE(std::ssize(scheduler.blocks(row.row)) * options.block_size, row.past + row.fresh);
    }
    EXPECT_LE(tokens, options.max_batched_tokens);
    EXPECT_LE(std::ssize(step), options.max_rows);
    const bool flying = std::ranges::any_of(flights_, [](const auto& flight) { return !flight.empty(); });
    EXPECT_FALSE(step.empty() && !scheduler.idle() && !flying) << "rows wait, but nothing runs";
    for (const auto& flight : flights_) {
      if (&flight == &flights_.back() && std::ssize(flights_) == options.passes) continue;
      for (const Flight& row : flight) EXPECT_FALSE(seen.contains(row.step.row)) << "in two steps at once";
    }
    idle += step.empty() && !scheduler.idle() ? 1 : 0;
    ++steps;
    computed += tokens;
  }

  using Memory = std::map<int64_t, uint64_t>;

  uint64_t Compute(const Flight& row, Memory& memory) const {
    const int64_t size = scheduler.options().block_size;
    const auto slot = [&](int64_t position) -> uint64_t& {
      return memory[row.blocks.at(static_cast<size_t>(position / size)) * size + position % size];
    };
    uint64_t digest = row.step.past == 0 ? Start(row.salt, ClassOf(scheduler.options().length_class, row.tokens))
                                         : slot(row.step.past - 1);
    for (int64_t i = row.step.past; i < row.step.past + row.step.fresh; ++i) {
      digest = MixAt(digest, row.tokens, i, row.contents);
      slot(i) = digest;
    }
    return digest;
  }

  std::map<int64_t, std::pair<Wish, Tokens>> rows_;
  std::map<size_t, Memory> memory_;          // by stage
  std::deque<std::vector<Flight>> flights_;  // by the stage that computes it next
};

std::vector<Wish> RandomWishes(std::mt19937& random, int count, int64_t longest) {
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  std::vector<Wish> wishes;
  for (int i = 0; i < count; ++i) {
    Wish wish{.count = 1 + below(longest / 2), .salt = below(4) == 0 ? "other" : ""};
    if (!wishes.empty() && below(2) == 0) {  // starts like an earlier one
      const Wish& earlier = wishes[static_cast<size_t>(below(std::ssize(wishes)))];
      wish.prompt.assign(earlier.prompt.begin(), earlier.prompt.begin() + below(std::ssize(earlier.prompt)) + 1);
    }
    for (int64_t more = below(longest / 2) + 1; more > 0; --more) wish.prompt.push_back(below(3));
    wish.prompt.resize(std::min<size_t>(wish.prompt.size(), static_cast<size_t>(longest / 2)));
    if (!wishes.empty() && below(3) == 0) {  // another choice of an earlier request
      wish.after = static_cast<size_t>(below(std::ssize(wishes)));
      wish.prompt = wishes[*wish.after].prompt;
      wish.salt = wishes[*wish.after].salt;
    }
    if (below(2) == 0) {  // an image, which its tokens do not tell from another
      const int64_t begin = below(std::ssize(wish.prompt)), end = begin + 1 + below(std::ssize(wish.prompt) - begin);
      wish.contents = {{.begin = begin, .end = end, .content = {7, 7, 7, below(2)}}};
    }
    if (wish.after) wish.contents = wishes[*wish.after].contents;
    wishes.push_back(wish);
  }
  return wishes;
}

TEST(Scheduler, RowsGetTheTokensTheyGetAlone) {
  int64_t preemptions = 0, hits = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int64_t size = 1 + random() % 4, longest = 24;
    SchedulerOptions options{.block_size = size,
                             .blocks = (longest + 1 + size) / size + static_cast<int64_t>(random() % 12),
                             .grows = seed % 7 == 0,
                             .max_rows = 1 + static_cast<int64_t>(random() % 6),
                             .prefix_cache = seed % 5 != 0,
                             .passes = 1 + seed % 4};
    options.max_batched_tokens = options.max_rows + static_cast<int64_t>(random() % 20);
    // As for longrope, and as for dynamic frequencies.
    if (seed % 3 == 1) options.length_class = [](int64_t length) { return length > 9 ? 1 : 0; };
    if (seed % 3 == 2) options.length_class = [](int64_t length) { return std::max<int64_t>(length - 9, 0); };
    const std::vector<Wish> wishes = RandomWishes(random, 20, longest);
    StandIn model(options);
    std::map<int64_t, size_t> wish_of;
    std::vector<int64_t> ids;  // of the wishes
    size_t added = 0, ended = 0, cancelled = 0;
    while (ended + cancelled < wishes.size()) {
      while (added < wishes.size() && random() % 3 != 0) {
        const Wish& wish = wishes[added];
        ids.push_back(model.Add(wish, wish.after ? std::optional(ids[*wish.after]) : std::nullopt));
        wish_of[ids.back()] = added++;
      }
      if (random() % 16 == 0 && !wish_of.empty()) {  // someone leaves
        model.Cancel(wish_of.begin()->first);
        wish_of.erase(wish_of.begin());
        ++cancelled;
      }
      for (const auto& [id, tokens] : model.Step()) {
        EXPECT_EQ(tokens, Alone(wishes[wish_of.at(id)], options.length_class)) << "seed " << seed << " row " << id;
        wish_of.erase(id);
        ++ended;
      }
      ASSERT_LT(model.steps, 5000) << "seed " << seed << " does not end";
    }
    EXPECT_EQ(model.scheduler.pool().available(), model.scheduler.pool().size()) << "a block is lost, seed " << seed;
    preemptions += model.scheduler.counts().preemptions;
    hits += model.scheduler.counts().prefix_hits;
  }
  EXPECT_GT(preemptions, 100) << "the test has to reach preemption";
  EXPECT_GT(hits, 1000) << "the test has to reach the prefix cache";
}

TEST(Scheduler, EveryRunningRowGetsATokenBesideALongPrompt) {
  StandIn model({.block_size = 4, .blocks = 100, .max_rows = 3, .max_batched_tokens = 8});
  model.Add({.prompt = {1}, .count = 50});
  model.Step();
  model.Add({.prompt = Tokens(60, 2), .count = 1});
  for (int i = 0; i < 8; ++i) {
    const std::vector<RowStep> step = model.scheduler.Plan();
    ASSERT_EQ(step.size(), 2u);
    EXPECT_TRUE(step[0].decodes);
    EXPECT_EQ(step[1].fresh, 7) << "what the budget leaves";
    model.scheduler.Computed(step);
    model.scheduler.Append(0, 1);
  }
}

TEST(Scheduler, APromptIsReusedFromTheCache) {
  StandIn model({.block_size = 4, .blocks = 100, .max_rows = 3});
  Tokens prompt(41, 7);
  model.Add({.prompt = prompt, .count = 2});
  model.Step();
  model.Step();
  const int64_t before = model.computed, second = model.Add({.prompt = prompt, .count = 2});
  model.Step();
  EXPECT_EQ(model.computed - before, 1) << "all but the last token is there";
  EXPECT_EQ(model.scheduler.cached(second), 40);
  model.Add({.prompt = prompt, .count = 1, .salt = "tenant"});
  const int64_t third = model.computed;
  model.Step();
  EXPECT_EQ(model.computed - third, 41 + 1) << "another tenant computes its own; the second row decodes";
}

TEST(Scheduler, ContentsTellPrefixesApart) {
  StandIn model({.block_size = 4, .blocks = 100, .max_rows = 1});
  const auto cached = [&](int64_t content) {
    const Wish wish{
        .prompt = Tokens(21, 7), .count = 1, .contents = {{.begin = 6, .end = 15, .content = {1, 2, 3, content}}}};
    const int64_t row = model.Add(wish);
    EXPECT_EQ(model.Step().at(row), Alone(wish)) << content;
    return model.scheduler.counts().prefix_hits;
  };
  EXPECT_EQ(cached(1), 0);
  EXPECT_EQ(cached(2), 4) << "the text before the image";
  EXPECT_EQ(cached(1), 4 + 20);
}

TEST(Scheduler, AnImageThatFitsIsComputedInOneStep) {
  Scheduler scheduler({.block_size = 4, .blocks = 100, .max_rows = 1, .max_batched_tokens = 8});
  scheduler.Add({.prompt = Tokens(40, 7), .contents = {{.begin = 3, .end = 10}, {.begin = 12, .end = 30}}});
  std::vector<int64_t> fresh;
  for (std::vector<RowStep> step; fresh.size() < 7 && !(step = scheduler.Plan()).empty(); scheduler.Computed(step)) {
    fresh.push_back(step[0].fresh);
  }
  EXPECT_EQ(fresh, (std::vector<int64_t>{3, 8, 1, 8, 8, 8, 4})) << "cut only where the image is longer than a step";
}

TEST(Scheduler, ChoicesWaitForThePromptTheyShare) {
  StandIn model({.block_size = 4, .blocks = 100, .max_rows = 8, .max_batched_tokens = 16});
  const Wish wish{.prompt = Tokens(40, 3), .count = 3};
  const int64_t first = model.Add(wish);
  for (int i = 0; i < 3; ++i) model.Add(wish, first);
  std::map<int64_t, Tokens> ended;
  while (!model.scheduler.idle()) ended.merge(model.Step());
  EXPECT_EQ(ended.size(), 4u);
  for (const auto& [id, tokens] : ended) EXPECT_EQ(tokens, Alone(wish));
  EXPECT_EQ(model.computed, 40 + 3 * 4 + 4 * 2) << "the others compute their last block only";
}

TEST(Scheduler, ARowWhoseLeaderLeavesStarts) {
  StandIn model({.block_size = 4, .blocks = 100, .max_rows = 8, .max_batched_tokens = 8});
  const Wish wish{.prompt = Tokens(40, 3), .count = 3};
  const int64_t first = model.Add(wish), second = model.Add(wish, first);
  model.Step();
  model.Cancel(first);
  std::map<int64_t, Tokens> ended;
  while (!model.scheduler.idle()) ended.merge(model.Step());
  EXPECT_EQ(ended.at(second), Alone(wish));
}

TEST(Scheduler, TheLastToComeGivesWay) {
  StandIn model({.block_size = 1, .blocks = 12, .max_rows = 3, .max_batched_tokens = 32, .prefix_cache = false});
  const Wish wish{.prompt = {1, 2, 3, 4}, .count = 6};
  const int64_t first = model.Add(wish), second = model.Add({.prompt = {4, 3, 2, 1}, .count = 6});
  std::vector<int64_t> order;
  while (!model.scheduler.idle()) {
    for (const auto& [id, tokens] : model.Step()) order.push_back(id);
  }
  EXPECT_EQ(order, (std::vector<int64_t>{first, second}));
  EXPECT_GT(model.scheduler.counts().preemptions, 0);
}

// While there are as many rows as stages, each step has its part of them, and none is empty.
TEST(Scheduler, TheStepsOfAPipelineTakeTurns) {
  for (const int64_t passes : {2, 3}) {
    StandIn model({.block_size = 4, .blocks = 200, .max_rows = 6, .passes = passes});
    for (int64_t i = 0; i < 6; ++i) model.Add({.prompt = Tokens(5 + static_cast<size_t>(i), i), .count = 20});
    while (!model.scheduler.idle()) model.Step();
    EXPECT_EQ(model.idle, passes - 1) << "only when the last rows leave the pipeline";
    EXPECT_EQ(model.steps, 20 * passes + passes - 1) << "each row's tokens, and the time to fill the pipeline";
  }
}

TEST(Scheduler, NamesTheFirstBlocksOfRowsThatRun) {
  Scheduler scheduler({.block_size = 4, .blocks = 8, .max_rows = 2, .max_batched_tokens = 8});
  for (int64_t row = 0; row < 3; ++row) scheduler.Add({.prompt = Tokens(5, row)});
  EXPECT_TRUE(scheduler.FirstBlocks().empty());
  scheduler.Computed(scheduler.Plan());
  EXPECT_EQ(scheduler.FirstBlocks(), (std::vector<int32_t>{scheduler.blocks(0).front(), scheduler.blocks(1).front()}));
  scheduler.Remove(0);
  EXPECT_EQ(scheduler.FirstBlocks(), (std::vector<int32_t>{scheduler.blocks(1).front()}));
}

TEST(Scheduler, RefusesWhatNeverFits) {
  Scheduler scheduler({.block_size = 4, .blocks = 2, .max_rows = 2});
  EXPECT_THROW(scheduler.Add({.prompt = Tokens(8, 1)}), Error) << "the next token has no room";
  EXPECT_NO_THROW(scheduler.Add({.prompt = Tokens(7, 1)}));
  EXPECT_THROW(Scheduler({.blocks = 1, .max_rows = 9, .max_batched_tokens = 8}), Error);
  StandIn model({.block_size = 4, .blocks = 2, .max_rows = 2});
  model.Add({.prompt = Tokens(7, 1), .count = 9});
  EXPECT_THROW(for (int i = 0; i < 9; ++i) model.Step(), Error) << "a row that grows beyond the whole cache";
}

}  // namespace
}  // namespace trireme
