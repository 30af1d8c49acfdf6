// Adapters that are dropped while rows that use them are in a pipeline: the pass keeps their weights, the others go on,
// and nothing is left of them afterwards.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "checkpoint/safetensors_writer.h"
#include "core/base/error.h"
#include "generation/adapter_set.h"
#include "generation/engine.h"
#include "tests/generation/small_model.h"

namespace trireme {
namespace {

using Tokens = std::vector<int64_t>;

// Adapters of rank 2 on all query projections, large enough to change tokens.
std::string WriteAdapter(const ModelFolder& model, const std::string& name, float value) {
  const std::filesystem::path directory = std::filesystem::path(model.path()) / name;
  if (TestJob().rank() == 0) {
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "adapter_config.json")
        << R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]})";
    std::vector<float> numbers(64);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = value * static_cast<float>(static_cast<int>(i % 7) - 3);
    std::vector<TensorToWrite> tensors;
    for (int layer = 0; layer < 4; ++layer) {
      const std::string of = Concat("base_model.model.model.layers.", layer, ".self_attn.q_proj.lora_");
      tensors.push_back({of + "A.weight", DType::kFp32, {2, 32}, numbers.data()});
      tensors.push_back({of + "B.weight", DType::kFp32, {32, 2}, numbers.data()});
    }
    WriteSafetensors(directory / "adapter_model.safetensors", tensors);
  }
  TestJob().Barrier();
  return directory.string();
}

std::vector<std::string> PipelineLayout() {
  if (TestJob().world() == 1) return {};
  return {"parallel.tensor=2", "parallel.pipeline=2"};
}

Tokens Alone(Session& session, const Tokens& prompt, const std::string& adapter, size_t count) {
  Engine engine(session, {.max_rows = 1, .prefix_cache = false});
  const int64_t row = engine.Add({.prompt = prompt, .adapter = engine.AddAdapter(adapter)});
  Tokens tokens;
  while (tokens.size() < count) {
    for (const NewToken& fresh : engine.Step()) tokens.push_back(fresh.token);
  }
  engine.End(row);
  return tokens;
}

TEST(EngineAdapters, APassKeepsADroppedAdapter) {
  const ModelFolder model(kHeads);
  const auto session = Open(model, PipelineLayout());
  AdapterSet adapters(*session);
  const int64_t id = adapters.Add(WriteAdapter(model, "a", 0.1f));
  adapters.Use(id);
  auto pass = adapters.ForPass({{{.adapter = id, .tokens = 3}}}, 0, 4, at::kCPU);
  ASSERT_EQ(pass->weights.size(), 1u);
  EXPECT_EQ(pass->weights[0].use_count(), 2) << "of the set and of the pass";
  EXPECT_EQ(pass->rows.adapters.at(0), pass->weights[0].get());
  adapters.Drop(id);
  EXPECT_EQ(pass->weights[0].use_count(), 2) << "its row still runs";
  adapters.Release(id);
  EXPECT_EQ(pass->weights[0].use_count(), 1) << "only the pass, in flight, has it";
}

// Row 1 ends and its adapter goes while its step is between the stages; the rows of another adapter and of none get
// their tokens, and the adapter can come again.
TEST(EngineAdapters, AnAdapterIsDroppedInFlight) {
  const ModelFolder model(kHeads);
  const auto session = Open(model, PipelineLayout());
  const std::string kept = WriteAdapter(model, "kept", 0.12f), dropped = WriteAdapter(model, "dropped", -0.2f);
  const Tokens prompt = {5, 9, 2, 40};
  constexpr size_t kCount = 12;
  const Tokens wanted = Alone(*session, prompt, kept, kCount), again = Alone(*session, prompt, dropped, kCount);
  ASSERT_NE(wanted, again) << "adapters that change nothing show nothing";
  Engine engine(*session, {.max_rows = 4, .block_size = 4});
  const int64_t first = engine.AddAdapter(kept), second = engine.AddAdapter(dropped);
  std::map<int64_t, Tokens> found;
  const int64_t row = engine.Add({.prompt = prompt, .adapter = first});
  const int64_t leaver = engine.Add({.prompt = prompt, .adapter = second});
  for (int step = 0; step < 5; ++step) {
    for (const NewToken& fresh : engine.Step()) found[fresh.row].push_back(fresh.token);
  }
  engine.End(leaver);
  engine.DropAdapter(second);
  EXPECT_EQ(found[leaver], Tokens(again.begin(), again.begin() + std::ssize(found[leaver])));
  const int64_t anew = engine.Add({.prompt = prompt, .adapter = engine.AddAdapter(dropped)});
  while (!engine.idle()) {
    for (const NewToken& fresh : engine.Step()) {
      ASSERT_NE(fresh.row, leaver);
      found[fresh.row].push_back(fresh.token);
      if (found[fresh.row].size() == kCount) engine.End(fresh.row);
    }
  }
  EXPECT_EQ(found[row], wanted);
  EXPECT_EQ(found[anew], again);
  EXPECT_EQ(engine.cache_usage(), 0);
}

}  // namespace
}  // namespace trireme
