// What a step costs: work as the layer graph has it, groups as the mesh lays them, refusals of device files, and
// measured runs beside their predictions, as docs/planning.md shows them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iomanip>
#include <map>
#include <sstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/config/load.h"
#include "core/plan/grids.h"
#include "cost/calibration.h"
#include "cost/expert_log.h"
#include "cost/pictures.h"
#include "cost/rows.h"
#include "cost/step_model.h"
#include "cost/step_text.h"
#include "parallel/graph/costs.h"
#include "session/model_graph.h"

namespace trireme {
namespace {

Config ConfigOf(const std::string& model, std::vector<std::string> set) {
  set.insert(set.begin(), {"tuning.kind=full", "model.init=random", Concat("model.path=", MODELS, "/", model)});
  return ParseConfig("", "test", set);
}

std::string RefusalOf(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_status(), 2);
    return error.what();
  }
  return "";
}

TEST(Cost, ProductsAreTheMatmulsOfTheLayerGraph) {
  for (const char* model : {"llama3-8b", "qwen2.5-0.5b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3"}) {
    const LayerGraph graph = ReadGraph(ConfigOf(model, {}));
    for (const Layer& layer : graph.layers) {
      const DecoderSpec* decoder = DecoderOf(layer.spec);
      int64_t parameters = 0;
      for (const Product& product : WorkOf(graph, layer, {}).products) {
        const bool routed = product.rows == Product::Rows::kExperts;
        parameters += product.outputs * product.inputs * (routed ? decoder->experts->router.top_k : 1);
      }
      EXPECT_EQ(parameters, MatMulParameters(layer)) << model << " " << layer.name;
    }
  }
}

TEST(Cost, GroupsAreWhereTheMeshLaysThem) {
  const Grids grids = MakeGrids(64, {.tensor = 2, .pipeline = 4, .context = 2, .expert = 4, .expert_tensor = 2});
  const auto stride = [](const RankList& group) { return group.size() < 2 ? 1 : group[1] - group[0]; };
  EXPECT_EQ(stride(grids.dense.Group(0, {"tp"})), 1);
  EXPECT_EQ(stride(grids.dense.Group(0, {"cp"})), 2);        // tensor
  EXPECT_EQ(stride(grids.dense.Group(0, {"dp", "cp"})), 2);  // tensor
  EXPECT_EQ(stride(grids.dense.Group(0, {"pp"})), 64 / 4);   // world / pipeline
  EXPECT_EQ(stride(grids.expert.Group(0, {"ep"})), 2);       // expert_tensor
  EXPECT_EQ(stride(grids.expert.Group(0, {"edp"})), 8);      // expert · expert_tensor
  const DeviceRates device = FindDevice("h100");
  const Links links(device);
  EXPECT_EQ(links.Together({.size = 8, .stride = 2}), 4);
  EXPECT_EQ(links.Together({.size = 4, .stride = 16}), 1);
}

TEST(Cost, OnAFullMeshSmallGroupsAreSlower) {
  const DeviceRates device = FindDevice("910b1");
  const Links links(device);
  EXPECT_GT(links.AllGather({.size = 2, .stride = 1}, 1e8), 1.5 * links.AllGather({.size = 8, .stride = 1}, 1e8));
}

TEST(Cost, PartsAddUpToTheStep) {
  const Config config = ConfigOf("mixtral-8x7b", {"parallel.tensor=2", "parallel.pipeline=2", "parallel.expert=4",
                                                  "data.max_length=2048", "run.global_batch=32", "parallel.zero=2"});
  const LayerGraph graph = ReadGraph(config);
  const DeviceRates device = FindDevice("h100");
  const Assumptions assumptions;
  const StepEstimate step = StepModel(config, graph, device, assumptions).Estimate(LayoutOf(config, 32));
  double sum = 0;
  const Json parts = ToJson(step).at("parts");
  for (const auto& [name, seconds] : parts.items()) {
    EXPECT_GE(seconds.get<double>(), -1e-9) << name;
    sum += seconds.get<double>();
  }
  EXPECT_NEAR(sum, step.step_seconds, 1e-9 * step.step_seconds);
  EXPECT_NEAR(step.tokens_per_second * step.step_seconds, 32 * 2048, 1e-3);
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Cost, PicturesShowEveryPassAndEveryCell) {
  const Config config = ConfigOf("qwen2.5-0.5b", {"parallel.tensor=2", "parallel.pipeline=4", "data.max_length=2048",
                                                  "run.global_batch=16", "memory.recompute=none"});
  const LayerGraph graph = ReadGraph(config);
  const DeviceRates device = FindDevice("910b1");
  const Assumptions assumptions;
  StepModel model(config, graph, device, assumptions);
  const std::string timeline = TimelineSvg(model, LayoutOf(config, 8));
  const int passes = 2 * 4 * 12, messages = 2 * 3 * 12;  // of 12 micro batches, forward and backward
  const int legend = 1;
  EXPECT_EQ(Count(timeline, "fill=\"#9ecae1\"") + Count(timeline, "fill=\"#fdae6b\""), passes + 2 * legend);
  EXPECT_EQ(Count(timeline, "fill=\"#5b4a8a\""), passes + legend);  // tensor-parallel exchanges in each
  EXPECT_EQ(Count(timeline, "fill=\"#b2182b\""), messages + legend);
  const SearchOptions options{.fix = {"run.micro_batch=1", "parallel.context=1"}};
  const std::string layouts = LayoutsSvg(config, graph, device, assumptions, 4, options);
  EXPECT_EQ(Count(layouts, "TFLOP/s"), 5) << "tensor 1 and 2: 1 and 2 stages and, of tensor 1, 4";
  const SearchResult best = SearchLayouts(config, graph, device, assumptions, 4, options);
  std::ostringstream seconds;
  seconds << std::setprecision(4) << best.found.front().step.step_seconds << " s";
  EXPECT_NE(layouts.find(seconds.str()), std::string::npos) << "the best of all is one of the cells";
}

TEST(Cost, DeviceFilesAreRefusedByKey) {
  const std::string whole = ToText(FindDevice("h100"));
  EXPECT_EQ(ToText(ParseDevice(whole, "copy.yaml")), whole);
  const auto without = [&](const std::string& line) {
    std::string text = whole;
    text.erase(text.find(line), text.find('\n', text.find(line)) - text.find(line));
    return RefusalOf([&] { ParseDevice(text, "d.yaml"); });
  };
  EXPECT_EQ(without("memory_gbs:"), "d.yaml: memory_gbs is missing");
  std::string absurd = whole;
  absurd.replace(absurd.find("peak_tflops: 989"), 16, "peak_tflops: -989");
  EXPECT_EQ(RefusalOf([&] { ParseDevice(absurd, "d.yaml"); }), "d.yaml: peak_tflops is -989; wanted 0.001 to 100000");
  EXPECT_NE(RefusalOf([] { FindDevice("h300"); }).find("trireme calibrate"), std::string::npos);
}

TEST(Cost, MeasuredRunsArePredicted) {
  const std::vector<PredictedRow> rows = PredictRows(ReadRows(ROWS));
  struct Limit {
    double mean, worst;
  };
  const std::map<std::string, Limit> limits = {{"MindSpeed-LLM, A2", {0.12, 0.25}}, {"Own, one H200", {0.05, 0.08}}};
  std::map<std::string, std::pair<double, int>> sums;
  std::map<std::string, double> tokens;
  for (const PredictedRow& row : rows) {
    const std::string group = limits.contains(row.row.group) ? row.row.group : "published";
    const double worst = limits.contains(group) ? limits.at(group).worst : 0.20;
    EXPECT_LT(std::abs(row.error()), worst) << row.row.name << " on " << row.row.world;
    sums[group].first += std::abs(row.error());
    sums[group].second += 1;
    tokens[row.row.name] = row.row.step_seconds / row.step_seconds;
  }
  for (const auto& [group, sum] : sums) {
    EXPECT_LT(sum.first / sum.second, limits.contains(group) ? limits.at(group).mean : 0.10) << group;
  }
  EXPECT_GE(sums["published"].second, 30);
  // 4733 and 2400 tokens per second and device: tensor parallelism over HCCS costs what a pipeline of two does not.
  EXPECT_GT(4733 * tokens["Llama2-7B, 4096 tokens"], 1.2 * 2400 * tokens["Llama3-8B, 8192 tokens"]);
  const std::string text = ToText(rows), page = ReadTextFile(PLANNING);
  EXPECT_NE(page.find(text), std::string::npos) << "docs/planning.md shows another table; write this one there:\n"
                                                << text;
}

// Figures are found again from times that they would give.
TEST(Calibration, FitsWhatWasMeasured) {
  const DeviceRates real = FindDevice("a100");
  const Assumptions plain;
  const LayerPricer pricer(real, plain);
  const Links links(real);
  Measurements measured{.matrix_flops = 2e14, .copy_gbs = real.memory_gbs};
  for (const double size : {512.0, 2048.0, 8192.0}) {
    measured.products.push_back(
        {4096, size, 4096, pricer.ProductSeconds(4096, size, 4096, 1, false),
         pricer.ProductSeconds(4096, 4096, size, 1, false) + pricer.ProductSeconds(size, 4096, 4096, 1, false)});
  }
  measured.norm = measured.update = {1e9, 1e9 / (real.memory_gbs * 1e9 * 0.5)};
  measured.crowding = {.alone = 0.2, .together = 0.25};
  for (const double bytes : {6.4e4, 4e6, 6.4e7}) {
    measured.exchanges.push_back({"all_gather", {8, 1}, bytes, links.AllGather({8, 1}, bytes)});
  }
  DeviceRates like = real;  // the data sheet's figures stay
  like.products = {.efficiency = 0.4,
                   .m_half = 9,
                   .n_half = 9,
                   .k_half = 9,
                   .tile_m = real.products.tile_m,
                   .tile_n = real.products.tile_n,
                   .cores = real.products.cores};
  like.inside.gbs = 10;
  like.inside.alpha_us = 100;
  Calibration made = Calibrate(like, measured);
  const LayerPricer again(made.device, plain);
  for (const MeasuredProduct& product : measured.products) {
    EXPECT_NEAR(again.ProductSeconds(product.m, product.n, product.k, 1, false) / product.forward, 1, 0.03);
  }
  for (const MeasuredExchange& exchange : measured.exchanges) {
    EXPECT_NEAR(Links(made.device).AllGather(exchange.group, exchange.bytes) / exchange.seconds, 1, 0.03);
  }
  EXPECT_NEAR(made.device.rest_efficiency, 0.5, 1e-9);
  EXPECT_NEAR(made.device.host_crowding, 0.25, 1e-9);
  // Two steps: 1.2 times what the figures say, and 10 ms for each of 4 gaps.
  AddResiduals({.longer = {1.2 * 1 + 0.04, 1, 4},
                .shorter = {1.2 * 0.2 + 0.04, 0.2, 4},
                .update = 0.015,
                .predicted_update = 0.01,
                .memory_bytes = 1.1e9,
                .planned_memory_bytes = 1e9},
               made);
  EXPECT_NEAR(made.device.residual, 1.2, 1e-9);
  EXPECT_NEAR(made.device.layer_us, 1e4 / 1.2, 1e-6);
  EXPECT_NEAR(made.device.step_ms, 5, 1e-9);
  EXPECT_NEAR(made.device.memory_residual, 1.1, 1e-9);
  const std::string text = ToText(made.device, made.sources);
  EXPECT_NE(text.find("# two real steps"), std::string::npos);
  EXPECT_EQ(ParseDevice(text, "written").residual, 1.2);
}

TEST(Cost, RanksThatShareCoresTakeTurns) {
  const Config config = ConfigOf("qwen2.5-0.5b", {"data.max_length=512", "run.global_batch=8"});
  const LayerGraph graph = ReadGraph(config);
  DeviceRates device = FindDevice("cpu");
  const Assumptions plain;
  const double alone = StepModel(config, graph, device, plain).Estimate(LayoutOf(config, 4)).step_seconds;
  device.host_cores = 2;
  const StepEstimate shared = StepModel(config, graph, device, plain).Estimate(LayoutOf(config, 4));
  EXPECT_NEAR(shared.step_seconds / alone, 2, 1e-9);
}

TEST(Cost, ARankAloneOnAHostIsFaster) {
  const Config config = ConfigOf("qwen2.5-0.5b", {"data.max_length=512", "run.global_batch=8"});
  const LayerGraph graph = ReadGraph(config);
  DeviceRates device = FindDevice("cpu");
  device.host_cores = 3;
  const Assumptions plain;
  const auto seconds = [&](int world) {
    return StepModel(config, graph, device, plain).Estimate(LayoutOf(config, world)).step_seconds;
  };
  const double one = seconds(1), two = seconds(2), four = seconds(4);
  device.host_crowding = 0.2;
  EXPECT_NEAR(one / seconds(1), 1.2, 1e-9);
  EXPECT_NEAR(two / seconds(2), 1.1, 1e-9);
  EXPECT_NEAR(four / seconds(4), 1, 1e-9);
}

TEST(Cost, CompletionsAreSampledBeforeThePasses) {
  const Config config = ConfigOf("qwen2.5-0.5b", {"stage=grpo", "data.max_length=1024", "run.global_batch=16",
                                                  "rl.max_new_tokens=512", "rl.rewards=[accuracy]"});
  const LayerGraph graph = ReadGraph(config);
  const DeviceRates device = FindDevice("h100");
  const Assumptions plain;
  StepModel model(config, graph, device, plain);
  const StepEstimate step = model.Estimate(LayoutOf(config, 1));
  const double weights = 0.49e9 * 2 / (device.memory_gbs * 1e9);  // read for each token
  EXPECT_GT(step.parts.sampling, 512 * weights);
  EXPECT_LT(step.parts.sampling, step.step_seconds);
  const Json phases = ToJson(model.Phases(LayoutOf(config, 1)));
  double sum = 0;
  for (const auto& [name, seconds] : phases.items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum, step.step_seconds, 1e-9);
}

TEST(Cost, ALogSaysHowUnevenExpertsAre) {
  const Config config = ConfigOf("mixtral-8x7b", {});
  const LayerGraph graph = ReadGraph(config);
  std::string layer;
  for (const Layer& each : graph.layers) {
    if (DecoderOf(each.spec) != nullptr) layer = each.name;
  }
  const std::string path = ::testing::TempDir() + "/experts_log.jsonl";
  const auto write = [&](const std::string& rows) {
    std::ofstream(path) << R"({"step":1,"experts":{"tokens_per_expert":{")" << layer << R"(":)" << rows << "}}}\n";
  };
  write("[3,1,1,1,1,1,0,0]");
  EXPECT_NEAR(ImbalanceOf(path, graph, 8), 3, 1e-9);
  EXPECT_NEAR(ImbalanceOf(path, graph, 2), 1.5, 1e-9);
  write("[3,1,1,1]");
  EXPECT_NE(RefusalOf([&] { ImbalanceOf(path, graph, 2); }).find("a log of another model"), std::string::npos);
}

}  // namespace
}  // namespace trireme
