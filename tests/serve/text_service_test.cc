// The service of vectors, scores and labels over a model that only counts: requests share passes, none of which has
// more tokens than it may, and each gets its own numbers; a full queue, a client that leaves, the end.
#include "serve/text_service.h"

#include <gtest/gtest.h>

#include <csignal>
#include <numeric>
#include <string>

#include "core/base/stop_signals.h"

namespace trireme {
namespace {

struct Answered {
  std::vector<float> numbers = {};
  std::string failure = {};
  bool gone = false;
};

class Noted : public TextListener {
 public:
  Noted(Answered& answered, int& left) : answered_(answered), left_(left) {}
  bool gone() const override { return answered_.gone; }
  void Done(const std::vector<float>& numbers) override {
    answered_.numbers = numbers;
    if (--left_ == 0) raise(SIGTERM);
  }
  void Fail(const ApiError& error) override { answered_.failure = error.message; }

 private:
  Answered& answered_;
  int& left_;
};

// Of each text its sum and its length; notes the tokens of each pass.
struct Counting {
  std::vector<int64_t> passes = {};
  std::vector<float> operator()(const std::vector<TextTokens>& texts) {
    std::vector<float> numbers;
    passes.push_back(0);
    for (const TextTokens& text : texts) {
      numbers.push_back(static_cast<float>(std::accumulate(text.begin(), text.end(), int64_t{0})));
      numbers.push_back(static_cast<float>(text.size()));
      passes.back() += std::ssize(text);
    }
    return numbers;
  }
};

TEST(TextService, SharesPassesUpToTheirTokens) {
  const StopSignals signals(/*speaks=*/false);
  Job job;
  Counting counting;
  TextService service([&counting](const auto& texts) { return counting(texts); }, {.waiting = 4, .tokens = 8}, job);
  Answered first, second, leaver, long_one;
  int left = 3;
  const auto ask = [&](Answered& answered, std::vector<TextTokens> texts) {
    service.Submit({.texts = std::move(texts), .listener = std::make_unique<Noted>(answered, left)});
  };
  ask(first, {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}});
  ask(second, {{10, 11}});
  leaver.gone = true;
  ask(leaver, {{1}});
  ask(long_one, {TextTokens(20, 1)});
  Answered refused;
  try {
    ask(refused, {{1}});
    ADD_FAILURE() << "a fifth request of four that may wait";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 429);
  }
  service.Run();
  EXPECT_EQ(first.numbers, (std::vector<float>{6, 3, 15, 3, 24, 3}));
  EXPECT_EQ(second.numbers, (std::vector<float>{21, 2}));
  EXPECT_EQ(long_one.numbers, (std::vector<float>{20, 20})) << "longer than a pass: it has one for itself";
  EXPECT_TRUE(leaver.numbers.empty() && leaver.failure.empty());
  EXPECT_EQ(counting.passes, (std::vector<int64_t>{6, 5, 20})) << "the last of the first request beside the second";
  EXPECT_NE(service.metrics().Text("m").find("trireme:prompt_tokens_total{model_name=\"m\"} 31"), std::string::npos);
  EXPECT_THROW(ask(first, {{1}}), ApiError) << "after the signal";
}

}  // namespace
}  // namespace trireme
