// The service over a small model, without a protocol: requests, listeners that leave, a full queue, other work between
// steps, and the end. Rank 0 asks; with more ranks the others are told.
#include "serve/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <functional>

#include "core/base/error.h"
#include "core/base/stop_signals.h"
#include "tests/generation/small_model.h"

namespace trireme {
namespace {

// What came of a request.
struct Heard {
  std::vector<std::vector<int64_t>> tokens = {};  // by choice
  std::vector<std::string> reasons = {};
  Usage usage = {};
  std::string failure = {};
  bool gone = false;
  std::function<void()> done = [] {};
};

class Recorder : public Listener {
 public:
  explicit Recorder(Heard& heard) : heard_(heard) {}
  bool gone() const override { return heard_.gone; }
  void Start() override {}
  void Token(size_t choice, const NewToken& token, const std::string& /*text*/) override {
    heard_.tokens.resize(std::max(heard_.tokens.size(), choice + 1));
    heard_.tokens[choice].push_back(token.token);
  }
  void End(size_t /*choice*/, const std::string& reason) override { heard_.reasons.push_back(reason); }
  void Done(const Usage& usage) override {
    heard_.usage = usage;
    heard_.done();
  }
  void Fail(const ApiError& error) override { heard_.failure = error.message; }

 private:
  Heard& heard_;
};

// Units that run between steps; the first waits until nothing is generated, after the second the service is to stop.
class CountedWork : public SideWork {
 public:
  bool waiting() override { return given_ < 2; }
  bool needs_idle() override { return given_ == 0; }
  std::string Take(bool idle) override {
    if (given_ == 2 || (needs_idle() && !idle)) return "";
    return Concat("unit ", ++given_);
  }
  void Run(const std::string& unit) override {
    ran.push_back(unit);
    if (ran.size() == 2 && TestJob().rank() == 0) raise(SIGTERM);
  }
  std::vector<std::string> ran;

 private:
  int given_ = 0;
};

class ServiceTest : public testing::Test {
 protected:
  Generation Ask(Heard& heard, int64_t n = 1, int64_t adapter = -1) const {
    return {.request = {.adapter = adapter,
                        .prompts = {{3, 1, 4, 1, 5}},
                        .n = n,
                        .max_tokens = 6,
                        .sampling = {.temperature = 0}},
            .listener = std::make_unique<Recorder>(heard)};
  }
  static std::string RefusalOf(const std::function<void()>& call) {
    try {
      call();
    } catch (const ApiError& error) {
      return Concat(error.status, ": ", error.message);
    }
    return "";
  }
  bool speaks() const { return TestJob().rank() == 0; }

  const ModelFolder folder_{kHeads};
  const std::unique_ptr<Session> session_ = Open(folder_, {});
  const Tokenizer tokenizer_{TRIREME_EXAMPLES "/chat"};
  AdapterNames adapters_;
  const ServedModel model_{
      .tokenizer = tokenizer_, .name = "tiny", .adapters = &adapters_, .vocabulary = kVocabulary, .context = 32};
  const StopSignals signals_{/*speaks=*/false};
};

TEST_F(ServiceTest, RequestsShareStepsAndOtherWorkComesBetween) {
  Service service(*session_, {.max_rows = 4, .block_size = 4}, {.waiting = 3}, model_, adapters_, TestJob());
  CountedWork work;
  service.Share(&work);
  Heard one, two, left, refused;
  one.done = two.done = [&] { EXPECT_TRUE(work.ran.empty()) << "they came before the unit that waits"; };
  left.gone = true;
  if (speaks()) {
    service.Submit(Ask(one));
    service.Submit(Ask(two, /*n=*/2));
    service.Submit(Ask(left));
    EXPECT_EQ(RefusalOf([&] { service.Submit(Ask(refused)); }), "429: 3 requests are waiting; try again later");
  }
  service.Run();
  EXPECT_EQ(work.ran, (std::vector<std::string>{"unit 1", "unit 2"})) << "on every rank";
  if (!speaks()) return;
  ASSERT_EQ(one.tokens.size(), 1U);
  EXPECT_EQ(one.tokens[0].size(), 6U);
  EXPECT_EQ(one.reasons, (std::vector<std::string>{"length"}));
  ASSERT_EQ(two.tokens.size(), 2U);
  for (const std::vector<int64_t>& tokens : two.tokens) EXPECT_EQ(tokens, one.tokens[0]) << "greedy, of one prompt";
  EXPECT_EQ(two.usage.prompt_tokens, 5);
  EXPECT_EQ(two.usage.completion_tokens, 12);
  EXPECT_TRUE(left.tokens.empty());
  EXPECT_TRUE(RefusalOf([&] { service.Submit(Ask(refused)); }).starts_with("503"));
}

TEST_F(ServiceTest, AnAdapterThatIsGoneIsSaid) {
  Service service(*session_, {.max_rows = 4, .own_adapter = false}, {}, model_, adapters_, TestJob());
  Heard late, one;
  std::string changed = "nothing";
  one.done = [] { raise(SIGTERM); };
  if (speaks()) {
    service.Submit(Ask(late, 1, /*adapter=*/7));
    service.Submit(Ask(one));
    service.Change({.name = "none", .directory = "/nowhere/adapter", .done = [&](const ApiError* error) {
                      changed = error == nullptr ? "done" : error->message;
                    }});
  }
  service.Run();
  if (!speaks()) return;
  EXPECT_NE(late.failure, "");
  EXPECT_EQ(one.tokens[0].size(), 6U);
  EXPECT_EQ(changed, "the adapter cannot be loaded; the server's log says why");
}

}  // namespace
}  // namespace trireme
