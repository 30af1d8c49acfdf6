// The engine gives a row the same tokens whatever else runs: with neighbours that come and go, in steps of
// few tokens, with a cache so small that rows are preempted, with and without reuse of prefixes. And what it
// samples from is the training pass's distribution: log-probabilities of both agree, over heads and latents,
// under several layouts.
#include "generation/engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "core/base/error.h"
#include "parallel/objectives/log_probs.h"
#include "parallel/tensor/collectives.h"
#include "tests/generation/small_model.h"
#include "train/step/batches.h"

namespace trireme {
namespace {

using Tokens = std::vector<int64_t>;
const char* const kLatents = R"({"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"],
  "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 16, "num_hidden_layers": 4,
  "first_k_dense_replace": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "n_routed_experts": 4,
  "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "norm_topk_prob": true,
  "routed_scaling_factor": 1.5, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 12,
  "qk_rope_head_dim": 8, "v_head_dim": 10, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
  "rope_theta": 10000.0, "tie_word_embeddings": false, "hidden_act": "silu", "attention_bias": false,
  "initializer_range": 0.3, "eos_token_id": 0, "scoring_func": "sigmoid", "topk_method": "noaux_tc"})";

struct Wish {
  Tokens prompt = {};
  int64_t count = 0;
  Sampling sampling = {};
};

// Of many lengths; some start alike.
std::vector<Wish> Wishes() {
  std::vector<Wish> wishes;
  for (int64_t i = 0; i < 9; ++i) {
    Wish wish{.prompt = {}, .count = 5 + i % 4, .sampling = {.temperature = i % 3 == 0 ? 0.0 : 1.0, .seed = 5}};
    const int64_t length = i % 2 == 0 ? 1 + 9 * i : 40, stem = i % 2 == 0 ? i : 100;
    for (int64_t k = 0; k < length; ++k) wish.prompt.push_back((stem * 31 + k * k + 7 * k) % kVocabulary);
    if (i == 7) wish.prompt.back() = 1;
    wishes.push_back(wish);
  }
  return wishes;
}

struct Written {
  Tokens tokens;
  std::vector<float> log_probs;
};

// Rows arrive two steps apart, or all at once.
std::vector<Written> Generate(Session& session, const std::vector<Wish>& wishes, const EngineOptions& options,
                              bool staggered, SchedulerCounts* counts = nullptr) {
  Engine engine(session, options);
  std::vector<Written> written(wishes.size());
  std::map<int64_t, size_t> wish_of;
  size_t added = 0;
  for (int64_t step = 0; added < wishes.size() || !engine.idle(); ++step) {
    while (added < wishes.size() && (!staggered || step % 2 == 0)) {
      const Wish& wish = wishes[added];
      wish_of[engine.Add(
          {.prompt = wish.prompt, .sampling = wish.sampling, .stream = static_cast<int64_t>(added), .top = 2})] = added;
      ++added;
      if (staggered) break;
    }
    for (const NewToken& fresh : engine.Step()) {
      Written& mine = written[wish_of.at(fresh.row)];
      mine.tokens.push_back(fresh.token);
      mine.log_probs.push_back(fresh.log_probs.at(0).log_prob);
      EXPECT_EQ(fresh.log_probs.size(), 3u);
      EXPECT_GE(fresh.log_probs[1].log_prob, fresh.log_probs[2].log_prob);
      EXPECT_GE(fresh.log_probs[1].log_prob, fresh.log_probs[0].log_prob) << "the likeliest";
      if (std::ssize(mine.tokens) == wishes[wish_of.at(fresh.row)].count) engine.End(fresh.row);
    }
  }
  if (counts != nullptr) *counts = engine.counts();
  EXPECT_EQ(engine.cache_usage(), 0) << "blocks are lost";
  return written;
}

std::vector<Written> OneByOne(Session& session, const std::vector<Wish>& wishes) {
  std::vector<Written> written;
  for (size_t i = 0; i < wishes.size(); ++i) {
    Engine engine(session, {.max_rows = 1, .prefix_cache = false});
    Written mine;
    const int64_t row = engine.Add(
        {.prompt = wishes[i].prompt, .sampling = wishes[i].sampling, .stream = static_cast<int64_t>(i), .top = 0});
    while (std::ssize(mine.tokens) < wishes[i].count) {
      for (const NewToken& fresh : engine.Step()) {
        mine.tokens.push_back(fresh.token);
        mine.log_probs.push_back(fresh.log_probs.at(0).log_prob);
      }
    }
    engine.End(row);
    written.push_back(std::move(mine));
  }
  return written;
}

// Written rows as prompts: their last tokens, and the log-probabilities that those have as part of a prompt.
std::vector<Written> Score(Session& session, const std::vector<Wish>& wishes, const std::vector<Written>& written,
                           const EngineOptions& options, SchedulerCounts* counts = nullptr) {
  Engine engine(session, options);
  std::vector<Written> scored(wishes.size());
  std::map<int64_t, size_t> wish_of;
  std::vector<Tokens> prompts;
  for (size_t i = 0; i < wishes.size(); ++i) {
    prompts.push_back(wishes[i].prompt);
    prompts[i].insert(prompts[i].end(), written[i].tokens.begin(), written[i].tokens.end());
    wish_of[engine.Add({.prompt = prompts[i], .top = 2, .prompt_log_probs = true})] = i;
  }
  while (!engine.idle()) {
    for (const NewToken& fresh : engine.Step()) {
      const size_t wish = wish_of.at(fresh.row);
      const auto& found = fresh.prompt_log_probs;
      EXPECT_EQ(found.size() + 1, prompts[wish].size());
      for (size_t k = wishes[wish].prompt.size() - 1; k < found.size(); ++k) {
        EXPECT_EQ(found[k].size(), 3u);
        EXPECT_GE(found[k][1].log_prob, found[k][0].log_prob) << "the likeliest";
        scored[wish].tokens.push_back(found[k][0].token);
        scored[wish].log_probs.push_back(found[k][0].log_prob);
      }
      engine.End(fresh.row);
    }
  }
  if (counts != nullptr) *counts = engine.counts();
  return scored;
}

// The training pass's log-probabilities of the written tokens, on every rank.
std::vector<std::vector<float>> TrainingLogProbs(Session& session, const std::vector<Wish>& wishes,
                                                 const std::vector<Written>& written) {
  std::vector<Row> rows(wishes.size());
  int64_t longest = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].input_ids = wishes[i].prompt;
    rows[i].input_ids.insert(rows[i].input_ids.end(), written[i].tokens.begin(), written[i].tokens.end());
    rows[i].labels = rows[i].input_ids;
    longest = std::max<int64_t>(longest, std::ssize(rows[i].labels));
  }
  const WeightedLogProbs objective;
  PassBatch batch(MakePassInputs(rows, ShapeOf(session)), {.objective = &objective,
                                                           .differentiate = false,
                                                           .totals = {.trained = 1, .tokens = 1},
                                                           .wants = {.log_probs = true}});
  session.RunForward(batch);
  at::Tensor table = at::zeros({std::ssize(rows), longest});
  for (int i = 0; i < batch.size() && session.Coordinate("tp") == 0; ++i) {
    const at::Tensor& log_probs = batch.result().outputs.at(static_cast<size_t>(i)).log_probs;
    if (!log_probs.defined()) continue;
    const int64_t* identity = batch.input(i).identities.data_ptr<int64_t>();
    const int64_t* labels = batch.input(i).labels.data_ptr<int64_t>();
    for (int64_t k = 0; k < log_probs.numel(); ++k) {
      if (labels[k] != kNotTrained) table[RowOf(identity[k])][PositionOf(identity[k]) + 1] = log_probs[k];
    }
  }
  AllReduce(table, session.world());
  std::vector<std::vector<float>> found(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    for (int64_t k = std::ssize(wishes[i].prompt); k < std::ssize(rows[i].labels); ++k) {
      found[i].push_back(table[static_cast<int64_t>(i)][k].item<float>());
    }
  }
  return found;
}

void ExpectTheSameTokens(Session& session) {
  const std::vector<Wish> wishes = Wishes();
  const std::vector<Written> wanted = OneByOne(session, wishes);
  struct Kind {
    const char* name;
    EngineOptions options;
    bool staggered;
  };
  for (const Kind& kind :
       {Kind{"all at once", {.max_rows = 16}, false}, Kind{"in turn", {.max_rows = 3, .block_size = 4}, true},
        Kind{"small steps", {.max_rows = 5, .max_batched_tokens = 11, .block_size = 8}, true},
        Kind{"small cache", {.max_rows = 6, .max_total_tokens = 96, .block_size = 4, .prefix_cache = false}, false},
        Kind{"small cache with prefixes", {.max_rows = 6, .max_total_tokens = 96, .block_size = 4}, true}}) {
    SchedulerCounts counts;
    const std::vector<Written> found = Generate(session, wishes, kind.options, kind.staggered, &counts);
    for (size_t i = 0; i < wishes.size(); ++i) {
      EXPECT_EQ(found[i].tokens, wanted[i].tokens) << kind.name << " row " << i;
    }
    const bool small = kind.options.max_total_tokens > 0 && session.plan().grids.dense.Size("dp") == 1;
    if (small) {
      EXPECT_GT(counts.preemptions, 0) << kind.name;
      EXPECT_EQ(counts.prefix_hits > 0, kind.options.prefix_cache) << kind.name;
    }
  }
  const std::vector<std::vector<float>> trained = TrainingLogProbs(session, wishes, wanted);
  for (size_t i = 0; i < wishes.size(); ++i) {
    ASSERT_EQ(trained[i].size(), wanted[i].log_probs.size());
    for (size_t k = 0; k < trained[i].size(); ++k) {
      EXPECT_NEAR(wanted[i].log_probs[k], trained[i][k], 2e-4) << "row " << i << " token " << k;
    }
  }
}

// In steps of few tokens, beside others, and where rows are preempted and computed again.
void ExpectPromptsHaveTheLogProbsOfAnswers(Session& session) {
  const std::vector<Wish> wishes = Wishes();
  const std::vector<Written> wanted = OneByOne(session, wishes);
  for (const EngineOptions& options :
       {EngineOptions{.max_rows = 16}, EngineOptions{.max_rows = 5, .max_batched_tokens = 11, .block_size = 8},
        EngineOptions{.max_rows = 6, .max_total_tokens = 128, .block_size = 4}}) {
    const std::vector<Written> found = Score(session, wishes, wanted, options);
    for (size_t i = 0; i < wishes.size(); ++i) {
      EXPECT_EQ(found[i].tokens, wanted[i].tokens);
      ASSERT_EQ(found[i].log_probs.size(), wanted[i].log_probs.size());
      for (size_t k = 0; k < found[i].log_probs.size(); ++k) {
        EXPECT_NEAR(found[i].log_probs[k], wanted[i].log_probs[k], 2e-4) << "row " << i << " token " << k;
      }
    }
  }
}

std::vector<std::vector<std::string>> Layouts(bool experts) {
  if (TestJob().world() == 1) return {{}};
  std::vector<std::vector<std::string>> layouts = {{"parallel.tensor=2", "parallel.pipeline=2"}, {"parallel.tensor=2"}};
  layouts.push_back(experts ? std::vector<std::string>{"parallel.expert=2"}
                            : std::vector<std::string>{"parallel.zero=3"});
  return layouts;
}

TEST(Engine, TokensDoNotDependOnNeighbours) {
  const ModelFolder model(kHeads);
  for (const std::vector<std::string>& layout : Layouts(false)) ExpectTheSameTokens(*Open(model, layout));
}

TEST(Engine, TokensOverLatentsDoNotDependOnNeighbours) {
  const ModelFolder model(kLatents);
  for (const std::vector<std::string>& layout : Layouts(true)) ExpectTheSameTokens(*Open(model, layout));
}

TEST(Engine, PromptsHaveTheLogProbabilitiesOfAnswers) {
  const ModelFolder model(kHeads);
  for (const std::vector<std::string>& layout : Layouts(false))
    ExpectPromptsHaveTheLogProbsOfAnswers(*Open(model, layout));
}

// With two groups of rows both stages always have one to compute, but for the first and the last step.
TEST(Engine, StagesOfAPipelineAreBusy) {
  if (TestJob().world() == 1) return;  // has one stage
  const ModelFolder model(kHeads);
  const auto session = Open(model, {"parallel.tensor=2", "parallel.pipeline=2"});
  Engine engine(*session, {.max_rows = 6});
  std::map<int64_t, int> left;
  for (int64_t i = 0; i < 6; ++i) left[engine.Add({.prompt = Tokens(static_cast<size_t>(3 + i), i)})] = 20;
  while (!engine.idle()) {
    for (const NewToken& fresh : engine.Step()) {
      if (--left.at(fresh.row) == 0) engine.End(fresh.row);
    }
  }
  EXPECT_GE(engine.times().stage_steps, 40) << "of this rank's stage: two groups of 20 tokens";
  EXPECT_LE(engine.times().idle_stage_steps, 2);
}

// Rows that leave while their step is in flight get nothing more, and the others go on.
TEST(Engine, RowsMayEndInFlight) {
  const ModelFolder model(kHeads);
  std::vector<std::string> layout = {"parallel.tensor=2", "parallel.pipeline=2"};
  if (TestJob().world() == 1) layout.clear();
  const auto session = Open(model, layout);
  const std::vector<Wish> wishes = Wishes();
  const std::vector<Written> wanted = OneByOne(*session, wishes);
  Engine engine(*session, {.max_rows = 9, .block_size = 4});
  std::map<int64_t, size_t> wish_of;
  for (size_t i = 0; i < wishes.size(); ++i) {
    wish_of[engine.Add(
        {.prompt = wishes[i].prompt, .sampling = wishes[i].sampling, .stream = static_cast<int64_t>(i)})] = i;
  }
  std::map<int64_t, Tokens> written;
  for (int64_t step = 0; !engine.idle(); ++step) {
    for (const NewToken& fresh : engine.Step()) {
      ASSERT_TRUE(wish_of.contains(fresh.row)) << "a token of a row that has ended";
      written[fresh.row].push_back(fresh.token);
      if (std::ssize(written[fresh.row]) == wishes[wish_of.at(fresh.row)].count) {
        EXPECT_EQ(written[fresh.row], wanted[wish_of.at(fresh.row)].tokens);
        engine.End(fresh.row);
      }
    }
    if (step >= 2 && step <= 4 && wish_of.contains(step)) {
      engine.End(step);
      wish_of.erase(step);
    }
  }
  EXPECT_EQ(engine.cache_usage(), 0);
}

TEST(Engine, ChoicesShareTheirPromptAndDrawTheirOwn) {
  const ModelFolder model(kHeads);
  const auto session = Open(model, {});
  Engine engine(*session, {.max_rows = 8, .block_size = 4});
  const Tokens prompt(41, 5);
  std::map<int64_t, Tokens> written;
  std::optional<int64_t> first;
  for (int64_t choice = 0; choice < 4; ++choice) {
    const int64_t row =
        engine.Add({.prompt = prompt, .sampling = {.temperature = 1.5, .seed = 3}, .stream = choice, .after = first});
    if (!first) first = row;
    written[row];
  }
  while (!engine.idle()) {
    for (const NewToken& fresh : engine.Step()) {
      written[fresh.row].push_back(fresh.token);
      if (fresh.row != *first && written[fresh.row].size() == 1) {
        EXPECT_EQ(engine.cached(fresh.row), 40);
      }
      if (written[fresh.row].size() == 8) engine.End(fresh.row);
    }
  }
  std::set<Tokens> different;
  for (const auto& [row, tokens] : written) different.insert(tokens);
  EXPECT_EQ(different.size(), 4u);
}

TEST(Engine, RefusesAPromptThatNeverFits) {
  const ModelFolder model(kHeads);
  const auto session = Open(model, {});
  Engine engine(*session, {.max_rows = 2, .max_total_tokens = 64});
  EXPECT_THROW(engine.Add({.prompt = Tokens(64, 1)}), Error);
  EXPECT_TRUE(engine.idle());
  EXPECT_EQ(CacheBytesPerToken(*session), 4 * 2 * 2 * 8 * 4) << "layers, keys and values, heads, head size, bytes";
}

}  // namespace
}  // namespace trireme
