// Descriptions of data sets: what an entry's columns and tags make of a record, and what is refused, by name.
#include "data/dataset_info.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "data/source_name.h"
#include "tests/data/scratch.h"

namespace trireme {
namespace {

class DatasetInfoTest : public ScratchTest {
 protected:
  // The set "one" of this entry, for a stage.
  DescribedSet Described(const std::string& entry, Stage stage = STAGE_SFT) {
    Write("one.json", "[]");
    return DatasetInfo(Write("dataset_info.json", R"({"one": )" + entry + "}")).Find("one", FactsOf(stage));
  }

  std::string Formed(const std::string& entry, const std::string& record, Stage stage = STAGE_SFT) {
    return ReadFormed(Json::parse(record), *Described(entry, stage).form).dump();
  }

  std::string RefusalOfEntry(const std::string& entry, Stage stage = STAGE_SFT) {
    return RefusalOf([&] { Described(entry, stage); });
  }
};

TEST_F(DatasetInfoTest, AlpacaColumns) {
  EXPECT_EQ(Formed(R"({"file_name": "one.json"})",
                   R"({"instruction": "a", "input": "b", "output": "c", "system": "not a column"})"),
            R"({"messages":[{"role":"user","content":"a\nb"},{"role":"assistant","content":"c"}]})");
  // An entry with columns has those and no others.
  const std::string columns =
      R"({"file_name": "one.json", "columns": {"prompt": "q", "response": "a", "system": "s", "history": "h"}})";
  EXPECT_EQ(
      Formed(columns, R"({"q": "x", "a": "y", "s": "z", "h": [["1", "2"]], "input": "no"})"),
      R"({"messages":[{"role":"user","content":"1"},{"role":"assistant","content":"2"},{"role":"user","content":"x"},)"
      R"({"role":"assistant","content":"y"}],"system":"z"})");
  EXPECT_EQ(Formed(columns, R"({"q": "x", "a": "y", "s": "", "h": null})"),
            R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]})");
}

TEST_F(DatasetInfoTest, ShareGptTags) {
  const std::string entry = R"({"file_name": "one.json", "formatting": "sharegpt", "columns": {"messages": "m"}, "tags":
      {"role_tag": "r", "content_tag": "c", "user_tag": "U", "assistant_tag": "A", "system_tag": "S"}})";
  EXPECT_EQ(
      Formed(entry, R"({"m": [{"r": "S", "c": "s"}, {"r": "U", "c": "u"}, {"r": "A", "c": "a", "loss": false}]})"),
      R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},)"
      R"({"role":"assistant","content":"a","loss":false}]})");
  const auto refusal = [&](const std::string& record) { return RefusalOf([&] { Formed(entry, record); }); };
  EXPECT_EQ(refusal(R"({"m": [{"r": "A", "c": "a"}, {"r": "U", "c": "u"}]})"),
            "message 1 is by 'A'; wanted 'U' there, as its tags in dataset_info.json say");
  EXPECT_EQ(
      refusal(R"({"m": [{"r": "U", "c": "u"}, {"r": "A", "c": "a"}, {"r": "observation", "c": "u"}]})").substr(0, 32),
      "message 3 is by 'observation'; w");
  EXPECT_EQ(refusal(R"({"m": [{"r": "U", "c": "u"}]})"),
            "has 1 messages beside the system's; wanted an even number: each question with its answer");
  EXPECT_EQ(refusal(R"({"m": [{"r": "U"}, {"r": "A", "c": "a"}]})"),
            R"(message 1 is {"r":"U"}; wanted its content under 'c')");
  EXPECT_EQ(refusal(R"({"n": []})").substr(0, 30), "has no 'm': its keys are n; na");
}

TEST_F(DatasetInfoTest, RankingSets) {
  const std::string entry =
      R"({"file_name": "one.json", "ranking": true, "columns": {"prompt": "q", "chosen": "c", "rejected": "r"}})";
  EXPECT_EQ(Formed(entry, R"({"q": "x", "c": "good", "r": "bad"})", STAGE_DPO),
            R"({"messages":[{"role":"user","content":"x"}],"chosen":"good","rejected":"bad"})");
  EXPECT_NE(RefusalOfEntry(entry).find("one is a ranking set, of chosen and rejected answers; stage sft wants others"),
            std::string::npos);
  EXPECT_NE(RefusalOfEntry(R"({"file_name": "one.json"})", STAGE_RM).find("one is not a ranking set; stage rm wants"),
            std::string::npos);
  EXPECT_NE(RefusalOfEntry(R"({"file_name": "one.json", "ranking": true})", STAGE_RM)
                .find("has no \"chosen\" in its columns"),
            std::string::npos);
}

TEST_F(DatasetInfoTest, TextsForPretraining) {
  EXPECT_EQ(Formed(R"({"file_name": "one.json", "columns": {"prompt": "t"}})", R"({"t": "once"})", STAGE_PT),
            R"({"text":"once"})");
  EXPECT_NE(RefusalOf([&] {
              Formed(R"({"file_name": "one.json"})", R"({"instruction": "a", "output": "b"})", STAGE_PT);
            }).find("has a response ('output'), which stage pt does not train"),
            std::string::npos);
}

TEST_F(DatasetInfoTest, RefusesWhatIsNotHere) {
  EXPECT_EQ(
      RefusalOfEntry(R"({"om_hub_url": "who/what"})"),
      "dataset_info.json: one is on a hub that is not asked (om_hub_url: who/what); get it with: openmind-cli pull "
      "who/what --local-dir DIR, then write \"file_name\": \"DIR\" instead");
  EXPECT_NE(RefusalOfEntry(R"({"script_url": "x"})").find("code of data sets is never run"), std::string::npos);
  EXPECT_NE(RefusalOfEntry(R"({"cloud_file_name": "s3://x"})").find("copy that file here"), std::string::npos);
  EXPECT_NE(RefusalOfEntry(R"({})").find("has no file_name"), std::string::npos);
  EXPECT_NE(RefusalOfEntry(R"({"file_name": "two.json"})").find("two.json, which does not exist"), std::string::npos);
}

// The hub that LLaMA-Factory would ask.
TEST_F(DatasetInfoTest, NamesSetsOnHubs) {
  unsetenv("USE_MODELSCOPE_HUB");
  const auto title = [&](const std::string& keys) { return Described("{" + keys + "}").hub_title; };
  EXPECT_EQ(title(R"("hf_hub_url": "who/what", "ms_hub_url": "w/x", "file_name": "one.json")"), "hf::who/what");
  EXPECT_EQ(title(R"("ms_hub_url": "w/x", "split": "test")"), "ms::w/x:test");
  EXPECT_EQ(title(R"("hf_hub_url": "who/what", "subset": "en", "script_url": "x")"), "hf::who/what:en/train");
  EXPECT_EQ(title(R"("file_name": "one.json")"), "");
  setenv("USE_MODELSCOPE_HUB", "1", 1);
  EXPECT_EQ(title(R"("hf_hub_url": "who/what", "ms_hub_url": "w/x", "subset": "en", "split": "a")"), "ms::w/x:en/a");
  unsetenv("USE_MODELSCOPE_HUB");
  EXPECT_EQ(Described(R"({"hf_hub_url": "who/what", "num_samples": 7})").count, 7);
  EXPECT_NE(RefusalOfEntry(R"({"hf_hub_url": "what"})").find("wanted OWNER/NAME"), std::string::npos);
  EXPECT_NE(RefusalOfEntry(R"({"hf_hub_url": "a/b", "folder": "x"})").find("has the folder \"x\""), std::string::npos);
}

TEST_F(DatasetInfoTest, RefusesKeysWithoutMeaning) {
  const auto refusal = [&](const std::string& keys) {
    return RefusalOfEntry(R"({"file_name": "one.json", )" + keys + "}");
  };
  EXPECT_NE(refusal(R"("colums": {})").find("has the key colums: {}, which has no meaning"), std::string::npos);
  EXPECT_NE(refusal(R"("subset": "x")").find("which is for data sets on a hub"), std::string::npos);
  EXPECT_NE(refusal(R"("split": "test")").find("has the split \"test\"; a file has only train"), std::string::npos);
  EXPECT_NE(refusal(R"("formatting": "openai")").find("wanted alpaca or sharegpt (with tags"), std::string::npos);
  EXPECT_NE(refusal(R"("columns": {"prompts": "x"})").find("has in its columns \"prompts\": \"x\"; wanted"),
            std::string::npos);
  EXPECT_NE(
      refusal(R"("formatting": "sharegpt", "tags": {"role_tag": "r"})").find("has no \"content_tag\" in its tags"),
      std::string::npos);
  EXPECT_NE(refusal(R"("num_samples": 0)").find("wanted a whole number of at least 1"), std::string::npos);
  EXPECT_EQ(refusal(R"("subset": null, "split": "train", "ranking": false, "file_sha1": "x")"), "accepted");
}

TEST_F(DatasetInfoTest, NamesInRuns) {
  Write("one.json", "[]");
  Config config;
  config.set_stage(STAGE_SFT);
  config.mutable_data()->set_dataset_info(folder_.string());
  Write("dataset_info.json", R"({"one": {"file_name": "one.json", "num_samples": 7}})");
  const SourceName plain = ParseSourceName("one", "data.train", config);
  EXPECT_EQ(plain.path, folder_ / "one.json");
  EXPECT_EQ(plain.count, 7);
  EXPECT_NE(plain.form, nullptr);
  EXPECT_EQ(ParseSourceName("one#3", "data.train", config).count, 3);
  EXPECT_EQ(ParseSourceName("one@0.5", "data.train", config).weight, 0.5);
  EXPECT_EQ(ParseSourceName((folder_ / "one.json").string(), "data.train", config).form, nullptr);
  EXPECT_NE(RefusalOf([&] { ParseSourceName("onne", "data.train", config); }).find("(did you mean one?)"),
            std::string::npos);
  EXPECT_NE(RefusalOf([&] { OpenRecords(folder_ / "dataset_info.json"); }).find("set data.dataset_info to it"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
