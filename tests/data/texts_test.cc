// Records of whole texts in every format, what is refused of them, and rows that have all texts of a record.
#include "data/text_samples.h"

#include "data/dataset.h"
#include "data/text_rows.h"
#include "tests/data/scratch.h"

namespace trireme {
namespace {

class TextRecords : public ScratchTest {
 protected:
  static TextOptions Options(EmbeddingLoss loss = EMBEDDING_LOSS_INFONCE) {
    TextOptions options{.labels = {"bad", "good", "best"}};
    options.keys.set_loss(loss);
    return options;
  }
  static TextOptions Lists() {
    TextOptions options;
    options.keys.set_ranking(RANKING_LOSS_LISTWISE);
    return options;
  }
  static TextOptions Labels(Problem problem) {
    TextOptions options = Options();
    options.keys.set_problem(problem);
    return options;
  }
  // "q | a 1 | b 0": the texts with their values; samples on lines of their own.
  static std::string Read(const std::string& record, Stage stage, const TextOptions& options) {
    std::string all;
    for (const TextUnit& sample : ReadTexts(Json::parse(record), {}, FactsOf(stage), options)) {
      std::string text;
      for (size_t i = 0; i < sample.texts.size(); ++i) {
        const Json& one = sample.texts[i];
        text += i > 0 ? " | " : "";
        text += one.is_string() ? one.get<std::string>() : one.dump();
        if (i > 0) text += Concat(" ", sample.values.at(i));
      }
      all += (all.empty() ? "" : "\n") + text;
    }
    return all;
  }
  std::string Refused(const std::string& record, Stage stage, const TextOptions& options) const {
    return RefusalOf([&] { Read(record, stage, options); });
  }
  static std::vector<float> Targets(const std::string& label, Problem problem) {
    return ReadTexts(Json::parse(R"({"text": "a", "label": )" + label + "}"), {}, FactsOf(STAGE_CLASSIFICATION),
                     Labels(problem))[0]
        .values;
  }

  Config ConfigFor(const std::string& rows, Stage stage) {
    Config config;
    config.set_stage(stage);
    config.mutable_data()->add_train(Write("rows.jsonl", rows));
    config.mutable_data()->set_cache((folder_ / "cache").string());
    config.mutable_data()->set_max_length(4);
    config.mutable_data()->set_packing(false);
    return config;
  }
};

TEST_F(TextRecords, AnchorsWithPositivesAndNegatives) {
  const TextOptions options = Options();
  const auto read = [&](const std::string& record) { return Read(record, STAGE_EMBEDDING, options); };
  EXPECT_EQ(read(R"({"anchor": "q", "positive": "a"})"), "q | a 1");
  EXPECT_EQ(read(R"({"anchor": "q", "positive": "a", "negative": "b"})"), "q | a 1 | b 0");
  EXPECT_EQ(read(R"({"query": "q", "positive": "a", "negative_1": "b", "negative_2": "c"})"), "q | a 1 | b 0 | c 0");
  EXPECT_EQ(read(R"({"query": "q", "pos": ["a", "A"], "neg": ["b", "c"]})"),
            "q | a 1 | b 0 | c 0\nq | A 1 | b 0 | c 0");
  EXPECT_EQ(read(R"({"sentence1": "q", "sentence2": "a"})"), "q | a 1");
  EXPECT_EQ(read(R"({"messages": [{"role": "user", "content": "q"}],
                     "positive_messages": [[{"role": "user", "content": "a"}]],
                     "negative_messages": [[{"role": "user", "content": "b"}], [{"role": "user", "content": "c"}]]})"),
            R"([{"role":"user","content":"q"}] | [{"role":"user","content":"a"}] 1 | )"
            R"([{"role":"user","content":"b"}] 0 | [{"role":"user","content":"c"}] 0)");
  TextOptions fewer = options;
  fewer.keys.set_hard_negatives(1);
  EXPECT_EQ(Read(R"({"query": "q", "pos": "a", "neg": ["b", "c"]})", STAGE_EMBEDDING, fewer), "q | a 1 | b 0");
}

TEST_F(TextRecords, PairsWithScores) {
  const TextOptions scores = Options(EMBEDDING_LOSS_COSINE), labels = Options(EMBEDDING_LOSS_CONTRASTIVE);
  EXPECT_EQ(Read(R"({"sentence1": "q", "sentence2": "a", "score": 0.5})", STAGE_EMBEDDING, scores), "q | a 0.5");
  EXPECT_EQ(Read(R"({"sentence1": "q", "sentence2": "a", "label": 1})", STAGE_EMBEDDING, labels), "q | a 1");
  EXPECT_EQ(Read(R"({"query": "q", "pos": ["a"], "neg": ["b"]})", STAGE_EMBEDDING, labels), "q | a 1 | b 0");
  EXPECT_EQ(Refused(R"({"sentence1": "q", "sentence2": "a", "label": 0.5})", STAGE_EMBEDDING, labels),
            "has the label 0.5; contrastive losses want 1 (alike) or 0 (unlike)");
  EXPECT_NE(Refused(R"({"sentence1": "q", "sentence2": "a", "score": 1})", STAGE_EMBEDDING, Options())
                .find("retrieval.loss: infonce does not use"),
            std::string::npos);
}

TEST_F(TextRecords, QueriesWithDocuments) {
  const TextOptions points;
  EXPECT_EQ(Read(R"({"query": "q", "positive": "a", "negative": ["b", "c"]})", STAGE_RERANKER, points),
            "q | a 1 | b 0 | c 0");
  EXPECT_EQ(Read(R"({"query": "q", "document": "a", "label": 0})", STAGE_RERANKER, points), "q | a 0");
  EXPECT_EQ(Read(R"({"query": "q", "documents": ["a", "b"], "labels": [0.25, 1]})", STAGE_RERANKER, points),
            "q | a 0.25 | b 1");
  EXPECT_EQ(Read(R"({"query": "q", "docs": ["a", "b"], "labels": [0, 3]})", STAGE_RERANKER, Lists()), "q | a 0 | b 3");
}

TEST_F(TextRecords, WhatTeachesNoRankingIsRefused) {
  const auto refused = [&](const std::string& record, const TextOptions& options) {
    return Refused(record, STAGE_RERANKER, options);
  };
  EXPECT_EQ(refused(R"({"query": "q", "documents": ["a", "b"], "labels": [0, 0]})", Lists()),
            "has no positive: none of its 2 documents is relevant to the query; leave such queries out with "
            "data.on_error: skip");
  EXPECT_EQ(refused(R"({"query": "q", "positive": "a"})", Lists()),
            "has one document; retrieval.ranking: listwise compares at least two for each query");
  EXPECT_EQ(refused(R"({"query": "q", "documents": ["a", "b"], "labels": [1]})", Lists()),
            "'labels' has 1 numbers for 2 documents; wanted one each");
  EXPECT_EQ(refused(R"({"query": "q", "document": "a", "label": 3})", {}),
            "has the label 3; wanted 0 to 1, how relevant the document is");
  EXPECT_EQ(refused(R"({"query": "q", "document": " ", "label": 1})", {}), "the document 'document' is empty");
  EXPECT_EQ(refused(R"({"query": "", "document": "a", "label": 1})", {}), "the anchor 'query' is empty");
  EXPECT_NE(refused(R"({"prompt": "q"})", {}).find("not a record for stage reranker: it has the keys prompt"),
            std::string::npos);
  EXPECT_EQ(Refused(R"({"anchor": "q", "negative": "b"})", STAGE_EMBEDDING, Options()),
            "has no positive; retrieval.loss: infonce needs one for each anchor");
}

TEST_F(TextRecords, LabelsAreNumbersNamesOrSeveral) {
  using Numbers = std::vector<float>;
  EXPECT_EQ(Targets("2", PROBLEM_SINGLE_LABEL), (Numbers{2}));
  EXPECT_EQ(Targets(R"("good")", PROBLEM_SINGLE_LABEL), (Numbers{1}));
  EXPECT_EQ(Targets("[2, 0]", PROBLEM_MULTI_LABEL), (Numbers{1, 0, 1}));
  EXPECT_EQ(Targets(R"(["best"])", PROBLEM_MULTI_LABEL), (Numbers{0, 0, 1}));
  EXPECT_EQ(Targets("[]", PROBLEM_MULTI_LABEL), (Numbers{0, 0, 0}));
  EXPECT_EQ(Targets("[1.0, 0.0, 1.0]", PROBLEM_MULTI_LABEL), (Numbers{1, 0, 1}));
  EXPECT_EQ(Targets("[0.5, -2, 3]", PROBLEM_REGRESSION), (Numbers{0.5, -2, 3}));
  const auto refused = [&](const std::string& label, Problem problem) {
    return RefusalOf([&] { Targets(label, problem); });
  };
  EXPECT_EQ(refused("3", PROBLEM_SINGLE_LABEL),
            "has the label 3, beyond the head's 3 labels, 0 to 2; set retrieval.labels");
  EXPECT_EQ(refused(R"("worst")", PROBLEM_SINGLE_LABEL),
            "has the label \"worst\"; the head has bad, good, best: name the labels with retrieval.label_names");
  EXPECT_EQ(refused("[0, 1]", PROBLEM_SINGLE_LABEL), "has 2 labels; for several set retrieval.problem: multi_label");
  EXPECT_EQ(refused("[0, 5]", PROBLEM_MULTI_LABEL),
            "has the label 5, beyond the head's 3 labels, 0 to 2; set retrieval.labels");
  EXPECT_EQ(refused("1", PROBLEM_REGRESSION), "has 1 numbers as its label; the head gives 3: set retrieval.labels");
}

TEST_F(TextRecords, ARowHasAllTextsOfItsRecord) {
  const std::string rows =
      "{\"text_ids\": [[1, 2], [3], [4, 5, 6]]}\n"
      "{\"text_ids\": [[1, 2], [3, 4, 5, 6, 7]]}\n"
      "{\"text_ids\": [[7], [8]]}\n";
  Config config = ConfigFor(rows, STAGE_EMBEDDING);
  const DataSets dropped = OpenDataSets(config, {.vocabulary = 100});
  ASSERT_EQ(dropped.train->size(), 2) << "a text of the second is too long";
  const Row row = dropped.train->Read(0);
  EXPECT_EQ(row.input_ids, (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(row.starts, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(row.samples, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(row.values, (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(dropped.train->Trained(0), 6) << "every token has a part in the vectors";
  EXPECT_EQ(dropped.train->Extent(0).documents, (std::vector<int64_t>{2, 1, 3}));
  config.mutable_data()->set_over_length(OVER_LENGTH_TRUNCATE);
  const DataSets cut = OpenDataSets(config, {.vocabulary = 100});
  ASSERT_EQ(cut.train->size(), 3);
  EXPECT_EQ(cut.train->Read(1).input_ids, (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(TextRecords, DataOfOneLabelAloneIsRefused) {
  const auto refusal = [&](const std::string& rows, Stage stage) {
    return RefusalOf([&] { OpenDataSets(ConfigFor(rows, stage), {.vocabulary = 100}); });
  };
  EXPECT_EQ(refusal("{\"input_ids\": [1], \"label\": 1}\n{\"input_ids\": [2], \"label\": 1}\n", STAGE_CLASSIFICATION),
            "data.train: all texts have the label LABEL_1; stage classification needs texts of at least two labels");
  EXPECT_EQ(refusal("{\"text_ids\": [[1]], \"labels\": [1]}\n", STAGE_RERANKER),
            "data.train: all documents have the label 1; stage reranker needs relevant and irrelevant ones");
  EXPECT_EQ(refusal("{\"text_ids\": [[1], [2]], \"labels\": [1, 0]}\n", STAGE_RERANKER), "accepted");
  EXPECT_EQ(refusal("{\"text_ids\": [[1], []]}\n", STAGE_EMBEDDING), "rows.jsonl:1: 'text_ids' has an empty text");
}

}  // namespace
}  // namespace trireme
