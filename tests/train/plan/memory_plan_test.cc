// The memory plan against numbers worked out by hand from the sizes of a model of 107 million parameters.
#include "train/plan/memory_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "core/base/error.h"
#include "core/config/load.h"
#include "models/families.h"
#include "parallel/graph/mtp.h"
#include "parallel/graph/parameters.h"
#include "parallel/graph/tuning.h"
#include "parallel/schedule/schedules.h"
#include "tests/parallel/graph/example_graph.h"

namespace trireme {
namespace {

constexpr int64_t kLayer = 6881280 + 2 * 768;                // matmul weights and two norms
constexpr int64_t kVocabulary = 32000 * 768;                 // the embedding, or the logits
constexpr int64_t kModel = 12 * kLayer + kVocabulary + 768;  // tied
constexpr int64_t kTokens = 1024;                            // two rows of 512

struct Case {
  std::string yaml = "";  // keys in addition to those of Plan()
  int world = 1;
  LayerGraph graph = Graph107M();
  const char* schedule = "1f1b";
  int micro_batches = 8;
};

std::vector<RankMemory> Plan(const Case& test) {
  const Config config = ParseConfig("data: {max_length: 512}\nrun: {micro_batch: 2}\n" + test.yaml, "test");
  const ParallelConfig& parallel = config.parallel();
  const Grids grids = MakeGrids(test.world, {.tensor = parallel.tensor(),
                                             .pipeline = parallel.pipeline(),
                                             .context = parallel.context(),
                                             .expert = parallel.expert(),
                                             .expert_tensor = parallel.expert_tensor()});
  const Schedule schedule = MakeSchedule(
      test.schedule, {parallel.pipeline(), test.micro_batches, parallel.virtual_stages()}, parallel.zero());
  const std::vector<int> said(parallel.stage_layers().begin(), parallel.stage_layers().end());
  const GroupPlan groups(grids, TrainingGroups({.experts = false, .tied_embedding = HasTiedHead(test.graph)}));
  return PlanMemory({.config = config,
                     .graph = test.graph,
                     .grids = grids,
                     .groups = groups,
                     .placement = schedule.placement,
                     .stages = PartitionLayers(test.graph, schedule.placement.stages(), said, 512),
                     .timeline = Simulate(schedule, {})});
}

LayerGraph GraphWithHeadNorms() {
  LayerGraph graph = Graph107M();
  for (Layer& layer : graph.layers) {
    auto* decoder = std::get_if<DecoderSpec>(&layer.spec);
    if (decoder == nullptr) continue;
    decoder->attention.qk_norm = true;
    for (const char* norm : {"attention.q_norm.weight", "attention.k_norm.weight"}) {
      layer.hf_names[norm] = layer.name + "." + norm;
    }
  }
  return graph;
}

// The fused attention's log-sum-exp, [tokens, heads] fp32, and its mask of 2048 x 2048.
TEST(MemoryPlan, NpuSavesTheStatisticsOfAttention) {
  constexpr int64_t kHeads = 12, kOfALayer = kHeads * kTokens * 4;
  for (const auto& [recompute, layers] : {std::pair{"none", 12}, {"selective", 1}, {"full", 1}}) {
    const std::string yaml = Concat("memory: {recompute: ", recompute, "}\n");
    const RankMemory plain = Plan({.yaml = yaml})[0], npu = Plan({.yaml = yaml + "device: npu\n"})[0];
    EXPECT_EQ(npu.activations - plain.activations, layers * kOfALayer) << recompute;
    EXPECT_EQ(plain.workspace, 0);
    EXPECT_EQ(npu.workspace, 2048 * 2048);
    EXPECT_EQ(npu.device() - plain.device(), layers * kOfALayer + 2048 * 2048);
  }
  const auto with_tensor = [](const char* device) {
    return Plan({.yaml = Concat("parallel: {tensor: 2}\ndevice: ", device, "\n"), .world = 2})[0].activations;
  };
  EXPECT_EQ(with_tensor("npu") - with_tensor("cpu"), 12 * kOfALayer / 2);
}

// Per token and layer queries, keys and values of 1280 elements; logits of 32000 tokens, fp32 here.
TEST(MemoryPlan, GpusKeepQueriesKeysAndValuesOnceAndLargerChunksOfLogits) {
  const std::string wide = "model: {dtype: fp32}\n";
  const RankMemory plain = Plan({.yaml = wide})[0], cuda = Plan({.yaml = wide + "device: cuda\n"})[0];
  EXPECT_EQ(plain.activations - cuda.activations, 12 * 1280 * kTokens * 4);
  EXPECT_EQ(plain.logits, (64 << 20) / (32000 * 4) * (32000 * 4));
  EXPECT_EQ(cuda.logits, kTokens * 32000 * 4);
  const LayerGraph norms = GraphWithHeadNorms();  // their gradients need what came before
  EXPECT_EQ(Plan({.yaml = wide + "device: cuda\n", .graph = norms})[0].activations,
            Plan({.yaml = wide, .graph = norms})[0].activations);
}

// A value head has none: what the logits would have left room for, the gradients of gate and up, is counted then.
TEST(MemoryPlan, NpuNeedsRoomForTheGradientsOfGateAndUpWhereNoLogitsWere) {
  LayerGraph graph = Graph107M(/*tied=*/false);
  std::get<HeadSpec>(graph.layers.back().spec).scores = true;
  graph.layers.back().hf_names["score.weight"] = "score.weight";
  const RankMemory scores = Plan({.yaml = "device: npu\n", .graph = graph})[0];
  EXPECT_EQ(scores.logits, 0);
  EXPECT_EQ(scores.workspace, 2048 * 2048 + 2 * 2304 * kTokens * 2);
}

// x · Aᵀ of an adapter of rank 8 in each of twelve layers, fp32; recomputed in full it exists for one layer at a time.
TEST(MemoryPlan, NpuSavesWhatLorasPairsComputed) {
  LayerGraph graph = Graph107M();
  for (Layer& layer : graph.layers) {
    if (DecoderOf(layer.spec) == nullptr) continue;
    layer.low_rank["attention.q"] = {.rank = 8};
    layer.hf_names["attention.q.weight"] = layer.name + ".q_proj.weight";
  }
  for (const auto& [recompute, layers] : {std::pair{"none", 12}, {"selective", 12}, {"full", 1}}) {
    const std::string yaml = Concat("device: npu\nmemory: {recompute: ", recompute, "}\n");
    EXPECT_EQ(Plan({.yaml = yaml, .graph = graph})[0].activations - Plan({.yaml = yaml})[0].activations,
              layers * 4 * 8 * kTokens)
        << recompute;
  }
}

TEST(MemoryPlan, TheWorkspaceIsShownWhereThereIsOne) {
  EXPECT_EQ(ToText(Plan({})).find("workspace"), std::string::npos);
  EXPECT_NE(ToText(Plan({.yaml = "device: npu\n"})).find("workspace"), std::string::npos);
}

TEST(MemoryPlan, StatesOfOneRank) {
  const RankMemory narrow = Plan({})[0];
  EXPECT_EQ(narrow.values, 2 * kModel);
  EXPECT_EQ(narrow.gradients, 4 * kModel);
  EXPECT_EQ(narrow.masters, 4 * kModel);
  EXPECT_EQ(narrow.moments, 8 * kModel);
  EXPECT_EQ(narrow.communicators, 0);
  EXPECT_EQ(narrow.host, 0);
  const RankMemory wide = Plan({.yaml = "model: {dtype: fp32}"})[0];
  EXPECT_EQ(wide.values, 4 * kModel);
  EXPECT_EQ(wide.masters, 0);  // the values are the masters
  EXPECT_EQ(wide.moments, 8 * kModel);
  EXPECT_EQ(Plan({.graph = Graph107M(/*tied=*/false)})[0].values, 2 * (kModel + kVocabulary));
}

// All twelve layers with 16 experts of 512 hidden units, 4 per token.
LayerGraph GraphWithExperts() {
  LayerGraph graph = Graph107M();
  for (size_t layer = 1; layer <= 12; ++layer) {
    PutExperts(graph, layer, {.router = {.experts = 16, .top_k = 4}, .hidden = 768, .ffn = 512});
  }
  return graph;
}

TEST(MemoryPlan, ExpertsAreShardedOverTheirOwnGrid) {
  constexpr int64_t kExperts = 12 * 16 * 3 * 768 * 512;                    // of all layers
  constexpr int64_t kRest = kModel - 12 * 3 * 768 * 2304 + 12 * 16 * 768;  // routers instead of mlps
  const auto plan = [](int expert, int expert_tensor, int zero) {
    return Plan(
        {.yaml = Concat("parallel: {expert: ", expert, ", expert_tensor: ", expert_tensor, ", zero: ", zero, "}"),
         .world = 4,
         .graph = GraphWithExperts()})[0];
  };
  EXPECT_EQ(plan(1, 1, 0).values, 2 * (kRest + kExperts));
  EXPECT_EQ(plan(4, 1, 0).values, 2 * (kRest + kExperts / 4));
  EXPECT_EQ(plan(2, 2, 0).values, plan(4, 1, 0).values);
  EXPECT_EQ(plan(1, 1, 1).moments, 8 * (kRest + kExperts) / 4);
  EXPECT_EQ(plan(2, 1, 1).moments, 8 * (kRest / 4 + kExperts / 2 / 2));  // two ranks have the same experts
  EXPECT_EQ(plan(4, 1, 1).moments, 8 * (kRest / 4 + kExperts / 4));
}

// Per token and layer: as a dense one, but four rows of 768 to experts, and the hidden units of those.
TEST(MemoryPlan, ActivationsOfExperts) {
  const int64_t head = 2 * 768 * kTokens * 2;
  const int64_t whole = 1536 + 1536 + 2560 + 768 + 4 * (768 + 2 * 512 + 512);
  const auto activations = [](const char* yaml) {
    return Plan({.yaml = yaml, .world = 2, .graph = GraphWithExperts()})[0].activations;
  };
  EXPECT_EQ(activations(""), 12 * whole * kTokens * 2 + head);
  EXPECT_EQ(activations("parallel: {expert: 2}"), activations(""));  // other ranks' tokens instead of its own
  EXPECT_EQ(activations("parallel: {expert_tensor: 2}"), activations("") + 12 * 4 * 768 * kTokens * 2);
  // Room for an eighth and 32 rows more than each of two ranks sends to each: 2 · (256 + 32) rows.
  EXPECT_EQ(activations("parallel: {expert: 2}\nexperts: {exchange: expected}"),
            activations("") + 12 * 576 * (768 + 2 * 512 + 512) * 2);
  EXPECT_EQ(activations("experts: {exchange: expected}"), activations(""));  // no rank exchanges anything
  // On npu the gradient of one layer's activation, in fp32, beside attention's mask.
  const RankMemory npu = Plan({.yaml = "device: npu", .world = 2, .graph = GraphWithExperts()})[0];
  EXPECT_EQ(npu.workspace, 2048 * 2048 + 10 * 4 * 4 * 512 * kTokens);
}

// The matmuls' inputs were saved; the gradients of their outputs are held besides.
TEST(MemoryPlan, WeightGradientsThatComeLaterHoldMore) {
  const auto activations = [](const char* schedule) {
    return Plan({.yaml = "parallel: {pipeline: 2, stage_layers: [6, 6]}",
                 .world = 2,
                 .schedule = schedule,
                 .micro_batches = 1})[0]
        .activations;
  };
  constexpr int64_t kSelective = 13312 - 1536 - 768 - 2304;
  EXPECT_EQ(activations("zero_bubble") - activations("1f1b"), 6 * kSelective * kTokens * 2);
}

TEST(MemoryPlan, ZeroShardsOverTheDataRanks) {
  const auto level = [](int zero) { return Plan({.yaml = Concat("parallel: {zero: ", zero, "}"), .world = 4})[0]; };
  const int64_t share = kModel / 4;
  static_assert(kModel % 4 == 0);
  EXPECT_EQ(level(0).gradients, 4 * kModel);
  EXPECT_EQ(level(0).moments, 8 * kModel);
  EXPECT_EQ(level(1).gradients, 4 * (kModel + share));
  EXPECT_EQ(level(1).masters, 4 * share);
  EXPECT_EQ(level(1).moments, 8 * share);
  EXPECT_EQ(level(1).values, 2 * kModel);
  // In flight: the embedding, which is the largest, and a layer.
  EXPECT_EQ(level(2).gradients, 4 * (share + kVocabulary + kLayer));
  EXPECT_EQ(level(2).values, 2 * kModel);
  EXPECT_EQ(level(3).gradients, level(2).gradients);
  EXPECT_EQ(level(3).values, 2 * (share + kVocabulary + kLayer));
}

TEST(MemoryPlan, ARankAloneHasEverythingAtAnyLevel) {
  const RankMemory zero = Plan({.yaml = "parallel: {zero: 0}"})[0];
  for (int level : {1, 2, 3}) EXPECT_EQ(Plan({.yaml = Concat("parallel: {zero: ", level, "}")})[0], zero);
}

TEST(MemoryPlan, OffloadMovesMastersAndMomentsToTheHost) {
  for (const char* dtype : {"bf16", "fp32"}) {
    const RankMemory memory =
        Plan({.yaml = Concat("memory: {offload_optimizer: true}\nmodel: {dtype: ", dtype, "}"), .world = 2})[0];
    EXPECT_EQ(memory.masters + memory.moments, 0);
    EXPECT_EQ(memory.host, 12 * kModel / 2);
  }
}

TEST(MemoryPlan, NarrowStatesTakeLess) {
  const RankMemory memory = Plan({.yaml = "optimizer: {masters: none, moments: bf16}\nmodel: {dtype: bf16}"})[0];
  EXPECT_EQ(memory.masters, 0);
  EXPECT_EQ(memory.moments, 4 * kModel);
}

TEST(MemoryPlan, SplitMastersTakeHalf) {
  EXPECT_EQ(Plan({.yaml = "optimizer: {masters: split}\nmodel: {dtype: bf16}"})[0].masters, 2 * kModel);
  EXPECT_EQ(Plan({.yaml = "optimizer: {masters: split}\nmodel: {dtype: fp32}"})[0].masters, 0);
}

TEST(MemoryPlan, UpdatesInTheBackwardPassLeaveTwoLayersGradients) {
  const std::string yaml = "model: {dtype: bf16}\noptimizer: {clip: 0";
  const int64_t after = Plan({.yaml = yaml + "}"})[0].gradients;
  const int64_t within = Plan({.yaml = yaml + ", update: in_backward}"})[0].gradients;
  EXPECT_EQ(after, 4 * kModel);
  EXPECT_LT(within, after / 2);
  EXPECT_GT(within, 0);
}

// A token, a layer: residual 2 · 768, norms 2 · 768, heads 2 · (12 + 8) · 64, attention 768, gate and up
// 2 · 2304, their product 2304. The head: its input and that one's gradient.
TEST(MemoryPlan, AReferenceIsASecondModelUnlessAnAdapterComesOff) {
  const std::string dpo = "stage: dpo\ntuning: {kind: full}\n";
  EXPECT_EQ(Plan({.yaml = dpo})[0].values, 2 * 2 * kModel);
  EXPECT_EQ(Plan({.yaml = dpo + "reference: none"})[0].values, 2 * kModel);
  EXPECT_EQ(Plan({.yaml = "stage: dpo\ntuning: {kind: lora}"})[0].values, 2 * kModel);
  EXPECT_EQ(Plan({.yaml = "stage: dpo\ntuning: {kind: lora}\nreference: some/model"})[0].values, 2 * 2 * kModel);
  EXPECT_EQ(Plan({.yaml = "stage: orpo\ntuning: {kind: full}"})[0].values, 2 * kModel);
}

TEST(MemoryPlan, ActivationsOfOneMicroBatch) {
  const int64_t head = 2 * 768 * kTokens * 2;
  const int64_t whole = 1536 + 1536 + 2560 + 768 + 4608 + 2304;
  EXPECT_EQ(Plan({})[0].activations, 12 * whole * kTokens * 2 + head);
  EXPECT_EQ(Plan({.yaml = "model: {dtype: fp32}"})[0].activations, 2 * (12 * whole * kTokens * 2 + head));
  const int64_t selective = 1536 + 2560 + 4608;
  EXPECT_EQ(Plan({.yaml = "memory: {recompute: selective}"})[0].activations,
            (12 * selective + (whole - selective)) * kTokens * 2 + head);
  EXPECT_EQ(Plan({.yaml = "memory: {recompute: full}"})[0].activations,
            (12 * 768 + (whole - 768)) * kTokens * 2 + head);
}

// A tower of three layers over patches of 96 pixels, two for each token, and its merger; nothing before it is trained.
TEST(MemoryPlan, TowersThatAreNotTrainedSaveNothing) {
  const Json rope = {{"rope_type", "default"}, {"rope_theta", 1e4}, {"mrope_section", {2, 3, 3}}};
  const Json text = {{"vocab_size", 101},        {"hidden_size", 32},        {"num_hidden_layers", 2},
                     {"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"head_dim", 16},
                     {"intermediate_size", 48},  {"hidden_act", "silu"},     {"rope_parameters", rope}};
  const Json vision = {{"depth", 3},      {"hidden_size", 16},     {"num_heads", 2},    {"intermediate_size", 24},
                       {"patch_size", 4}, {"out_hidden_size", 32}, {"window_size", 16}, {"fullatt_block_indexes", {1}}};
  const Json config = {
      {"model_type", "qwen2_5_vl"}, {"text_config", text}, {"vision_config", vision}, {"image_token_id", 99}};
  const auto activations = [&](const std::set<ModelPart>& frozen, int context = 1) {
    LayerGraph graph = BuildGraph(HfConfig(config, "config.json"));
    FreezeParts(graph, frozen);
    return Plan({.yaml = Concat("parallel: {context: ", context, "}"), .world = context, .graph = graph})[0]
        .activations;
  };
  constexpr int64_t kPatches = 2 * kTokens, kTower = 96 + 3 * (9 * 16 + 2 * 16 + 3 * 24), kMerger = 4 * 16;
  const int64_t all = activations({}), without_tower = activations({ModelPart::kVision});
  EXPECT_EQ(all - without_tower, kTower * kPatches * 2);
  EXPECT_EQ(without_tower - activations({ModelPart::kVision, ModelPart::kAligner}), kMerger * kPatches * 2);
  EXPECT_EQ(activations({}, 2) - activations({ModelPart::kVision}, 2),
            kTower * kPatches * 2);  // every rank has all images
  EXPECT_EQ(activations({ModelPart::kLanguage}), all);
  EXPECT_EQ(activations({ModelPart::kAligner}), all);
}

// A layer like the others, with its projection, three norms and the states around them: the input, the
// model's normalised state, embeddings, two norms side by side, its output. The head has two of everything.
TEST(MemoryPlan, MultiTokenPredictionAddsALayerAndAnEmbedding) {
  LayerGraph graph = Graph107M(/*tied=*/false);
  OfferMtp(graph);
  AddMtpLayers(graph, 1, 0.1);
  constexpr int64_t kMtp = kLayer + 2 * 768 * 768 + 3 * 768;
  const RankMemory one = Plan({.graph = graph})[0];
  EXPECT_EQ(one.values, 2 * (kModel + kVocabulary + kMtp));
  const RankMemory plain = Plan({.graph = Graph107M(/*tied=*/false)})[0];
  EXPECT_EQ(one.activations - plain.activations, (13312 + 6 * 768 + 2 * 768) * kTokens * 2);
  const char* full = "memory: {recompute: full}";
  EXPECT_EQ(Plan({.yaml = full, .graph = graph})[0].activations -
                Plan({.yaml = full, .graph = Graph107M(/*tied=*/false)})[0].activations,
            (768 + 2 * 768) * kTokens * 2);
  const auto stages = Plan({.yaml = "parallel: {pipeline: 2, stage_layers: [6, 6]}", .world = 2, .graph = graph});
  EXPECT_EQ(stages[0].values, 2 * (6 * kLayer + kVocabulary));
  EXPECT_EQ(stages[1].values, 2 * (6 * kLayer + kMtp + 768 + 2 * kVocabulary));  // its own embedding
}

TEST(MemoryPlan, TensorRanksShardHeadsHiddenUnitsAndOptionallyTokens) {
  const int64_t blocks = (1536 + 2560 / 2 + 768 / 2 + 4608 / 2 + 2304 / 2) * kTokens;  // norms stay whole
  const RankMemory sequence = Plan({.yaml = "parallel: {tensor: 2}", .world = 2})[0];
  EXPECT_EQ(sequence.activations, 2 * (12 * (blocks + 1536 * kTokens / 2) + 768 * kTokens / 2 + 768 * kTokens));
  const RankMemory plain = Plan({.yaml = "parallel: {tensor: 2, sequence: false}", .world = 2})[0];
  EXPECT_EQ(plain.activations, 2 * (12 * (blocks + 1536 * kTokens) + 2 * 768 * kTokens));
  EXPECT_EQ(sequence.values, 2 * (12 * (6881280 / 2 + 2 * 768) + kVocabulary / 2 + 768));
}

TEST(MemoryPlan, SharedKeyValueHeadsAreCompleteOnEachRank) {
  const LayerGraph graph = ExampleGraph({.hidden = 8, .heads = 8, .kv_heads = 2, .head_dim = 4, .ffn = 16}, {1});
  const RankMemory memory = Plan({.yaml = "parallel: {tensor: 4}", .world = 4, .graph = graph})[0];
  // Per rank: 2 query heads, 1 key and 1 value head; ffn 4. Tokens between blocks: a quarter.
  const int64_t layer = 16 / 4 + 16 + 2 * (2 + 2) * 4 + 2 * 4 + 2 * 4 + 4, head = 8 / 4 + 8;
  EXPECT_EQ(memory.activations, 2 * kTokens * (layer + head));
}

TEST(MemoryPlan, ContextRanksShardTokens) {
  EXPECT_EQ(2 * Plan({.yaml = "parallel: {context: 2}", .world = 2})[0].activations, Plan({})[0].activations);
  EXPECT_EQ(Plan({.yaml = "parallel: {context: 2}", .world = 2})[0].moments, 8 * kModel / 2);
}

TEST(MemoryPlan, EarlierStagesSaveMoreMicroBatches) {
  const auto ranks = Plan({.yaml = "parallel: {pipeline: 4, stage_layers: [3, 3, 3, 3]}", .world = 4});
  const int64_t layer = 13312 * kTokens * 2, head = 2 * 768 * kTokens * 2;
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks[rank].activations, (4 - rank) * 3 * layer);
  EXPECT_EQ(ranks[3].activations, 3 * layer + head);
  const auto few =
      Plan({.yaml = "parallel: {pipeline: 4, stage_layers: [3, 3, 3, 3]}", .world = 4, .micro_batches = 2});
  EXPECT_EQ(few[0].activations, 2 * 3 * layer);
}

TEST(MemoryPlan, ChunksCountByTheirOwnSize) {
  // Rank 0: stages 0 and 2. With two micro batches all four passes are live at once.
  const auto activations = [](int micro_batches) {
    return Plan({.yaml = "parallel: {pipeline: 2, virtual_stages: 2, stage_layers: [1, 2, 7, 2]}",
                 .world = 2,
                 .schedule = "interleaved",
                 .micro_batches = micro_batches})[0]
        .activations;
  };
  EXPECT_EQ(activations(2), 2 * (1 + 7) * 13312 * kTokens * 2);
  EXPECT_EQ(activations(8), activations(32));
}

TEST(MemoryPlan, WhatIsSavedIsFreedAgain) {
  const std::string yaml = "parallel: {pipeline: 3, stage_layers: [2, 4, 6]}";
  for (const char* schedule : {"1f1b", "zero_bubble"}) {
    EXPECT_EQ(Plan({.yaml = yaml, .world = 3, .schedule = schedule, .micro_batches = 8}),
              Plan({.yaml = yaml, .world = 3, .schedule = schedule, .micro_batches = 64}));
  }
}

TEST(MemoryPlan, ATiedHeadOnAnotherRankHasACopyOfTheEmbedding) {
  const std::string yaml = "parallel: {pipeline: 2, stage_layers: [6, 6]}";
  const auto tied = Plan({.yaml = yaml, .world = 2});
  EXPECT_EQ(tied[0].values, 2 * (6 * kLayer + kVocabulary));
  EXPECT_EQ(tied[1].values, 2 * (6 * kLayer + kVocabulary + 768));
  EXPECT_EQ(Plan({.yaml = yaml, .world = 2, .graph = Graph107M(false)}), tied);  // the logits are as large
  // In a V, the first and the last stage are on the same rank.
  const auto v =
      Plan({.yaml = "parallel: {pipeline: 2, stage_layers: [3, 3, 3, 3]}", .world = 2, .schedule = "dualpipev"});
  EXPECT_EQ(v[0].values, 2 * (6 * kLayer + kVocabulary + 768));
  EXPECT_EQ(v[1].values, 2 * 6 * kLayer);
}

TEST(MemoryPlan, LogitsAreComputedInChunks) {
  EXPECT_EQ(Plan({})[0].logits, std::min<int64_t>(kTokens, (64 << 20) / 64000) * 64000);
  EXPECT_EQ(Plan({.yaml = "model: {dtype: fp32}"})[0].logits, std::min<int64_t>(kTokens, (64 << 20) / 128000) * 128000);
  EXPECT_EQ(Plan({.graph = ExampleGraph({.vocabulary = 33}, {1})})[0].logits, kTokens * 33 * 2);
  const auto ranks = Plan({.yaml = "parallel: {pipeline: 2}", .world = 2});
  EXPECT_EQ(ranks[0].logits, 0);
  EXPECT_GT(ranks[1].logits, 0);
}

// Twice the buffer each: 16 MB for the world, 64 for the pipeline; inner stages have no embedding group.
TEST(MemoryPlan, CommunicatorsAreThoseOfTheGroups) {
  const auto ranks = Plan({.yaml = "parallel: {pipeline: 4}", .world = 4});
  EXPECT_EQ(ranks[1].communicators, 2 * (16 + 64) << 20);
  EXPECT_EQ(ranks[0].communicators, 2 * (16 + 64 + 64) << 20);
  EXPECT_EQ(ranks[3].communicators, ranks[0].communicators);
}

TEST(MemoryPlan, RefusesWhatDoesNotSplit) {
  try {
    Plan({.yaml = "parallel: {tensor: 5}", .world = 5});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("12 attention heads are not divisible by parallel.tensor = 5"),
              std::string::npos)
        << error.what();
  }
}

TEST(MemoryPlan, TextMergesEqualRanks) {
  const RankMemory small{.values = 1 << 20, .gradients = 3 << 19}, large{.values = 5 << 20, .host = 1 << 20};
  const std::string text = ToText({small, small, large, small, small, small});
  EXPECT_EQ(text,
            "  ranks       values  gradients    masters    moments  activations     logits  communicators     "
            "device       host\n"
            "  0-1,3-5        1.0        1.5        0.0        0.0          0.0        0.0            0.0        "
            "2.5        0.0\n"
            "  2              5.0        0.0        0.0        0.0          0.0        0.0            0.0        "
            "5.0        1.0\n");
}

}  // namespace
}  // namespace trireme
