// The closing summary names commands that can be typed next, quoted for a shell.
#include "train/report/summary.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace trireme {
namespace {

Config ConfigOf(TuningKind kind) {
  Config config;
  config.mutable_tuning()->set_kind(kind);
  config.mutable_model()->set_path("models/base");
  config.mutable_run()->set_output("my runs/a");
  return config;
}

const LogCurves kCurves = {.train = {{1, 4.0}, {20, 2.0}}, .eval = {{10, 2.5}, {20, 2.75}}};

TEST(Summary, FullTuningProducesAModel) {
  EXPECT_EQ(EndSummary(ConfigOf(TUNING_FULL), {.step = 20, .total_steps = 20, .seconds = 65}, kCurves, "trireme"),
            "done: step 20 of 20, 1:05\n"
            "  loss 4.0000 at step 1, 2.0000 at step 20\n"
            "  eval loss 2.7500 at step 20, lowest 2.5000 at step 10\n"
            "  my runs/a/final: the model, as Hugging Face reads it; my runs/a/loss.svg: its curve\n"
            "next:\n"
            "  tensorboard --logdir 'my runs/a/events'\n");
}

// Whose loss is 0 on average, whatever is learnt.
TEST(Summary, OfAPolicyTheRewardIsShown) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("policy_summary_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "log.jsonl") << R"({"step":0,"eval_mean@1":0.125})" << "\n"
                                      << R"({"step":1,"loss":0.0,"reward":0.25,"eval_mean@1":0.5})" << "\n"
                                      << R"({"step":20,"loss":0.0,"reward":0.75,"eval_mean@1":0.25})" << "\n";
  Config config = ConfigOf(TUNING_FULL);
  config.set_stage(STAGE_GRPO);
  config.mutable_run()->set_output(folder.string());
  const std::string text =
      EndSummary(config, {.step = 20, .total_steps = 20}, ReadCurves(folder / "log.jsonl"), "trireme");
  std::filesystem::remove_all(folder);
  EXPECT_NE(text.find("  reward 0.2500 at step 1, 0.7500 at step 20\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  eval mean@1 0.2500 at step 20, highest 0.5000 at step 1\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("loss 0.0000"), std::string::npos) << text;
}

// A model directory as the summary reads it.
class ModelFiles : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  std::string Words(TuningKind kind, Stage stage = STAGE_SFT, const std::string& chat_template = "") {
    Config config = ConfigOf(kind);
    config.mutable_model()->set_path(folder_.string());
    config.set_stage(stage);
    config.mutable_data()->set_template_(chat_template);
    return EndSummary(config, {.step = 20, .total_steps = 20}, {}, "trireme");
  }
  void Expect(const std::string& words, const std::string& text) {
    EXPECT_NE(text.find("  trireme " + words + "\n"), std::string::npos) << words << "\n" << text;
  }
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("summary_" + std::to_string(getpid()));
};

TEST_F(ModelFiles, ConversationsAreAnsweredByTheirTemplate) {
  Write("tokenizer.json", "{}");
  const std::string lora = "generate --model " + folder_.string() + " --adapters 'my runs/a/final'";
  Expect(lora + " --prompt 'Hello'", Words(TUNING_LORA));
  Expect(lora + " --chat --set data.template=t.jinja", Words(TUNING_LORA, STAGE_SFT, "t.jinja"));
  Write("tokenizer_config.json", R"({"chat_template": "x"})");
  Expect(lora + " --chat", Words(TUNING_LORA));
  Expect("generate --model 'my runs/a/final' --chat", Words(TUNING_FULL));
  Expect("generate --model 'my runs/a/final' --prompt 'Hello'", Words(TUNING_FULL, STAGE_PT));
  Expect("merge --model " + folder_.string() + " --adapters 'my runs/a/final' --to 'my runs/a/merged'",
         Words(TUNING_LORA));
}

TEST_F(ModelFiles, NothingIsSuggestedThatWouldNotWork) {
  EXPECT_EQ(Words(TUNING_FULL).find("generate"), std::string::npos) << "there is no tokenizer";
  EXPECT_EQ(Words(TUNING_FULL, STAGE_PT).find("generate"), std::string::npos) << "there is no tokenizer";
}

TEST(Summary, ACompleteRunIsReportedAsSuch) {
  const std::string text =
      EndSummary(ConfigOf(TUNING_FULL), {.step = 20, .total_steps = 20, .trained = false}, kCurves, "trireme");
  EXPECT_EQ(text.substr(0, text.find('\n')), "already complete: step 20 of 20; nothing was trained");
}

TEST(Summary, AnExpertAdapterNamesTheVersionsThatReadIt) {
  const std::filesystem::path output = testing::TempDir() + "trireme_summary_" + std::to_string(getpid());
  std::filesystem::create_directories(output / "final");
  Config config = ConfigOf(TUNING_LORA);
  config.mutable_run()->set_output(output.string());
  const auto text = [&](const std::string& adapter_config) {
    std::ofstream(output / "final" / "adapter_config.json") << adapter_config;
    return EndSummary(config, {.step = 20, .total_steps = 20}, {}, "trireme");
  };
  const std::string fused = text(R"({"target_parameters": ["mlp.experts.gate_up_proj"]})");
  EXPECT_NE(fused.find("as PEFT reads it with transformers 5;"), std::string::npos) << fused;
  EXPECT_NE(fused.find("trireme convert --from " + (output / "checkpoint-20").string()), std::string::npos) << fused;
  EXPECT_NE(fused.find("--experts-apart"), std::string::npos) << fused;
  const std::string plain = text(R"({"target_modules": ["q_proj"]})");
  EXPECT_NE(plain.find("as PEFT reads it;"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("--experts-apart"), std::string::npos) << plain;
  std::filesystem::remove_all(output);
}

TEST(Summary, AStopSaysHowToResume) {
  EXPECT_EQ(EndSummary(ConfigOf(TUNING_FULL), {.step = 7, .total_steps = 20, .seconds = 3}, kCurves, "trireme"),
            "stopped at step 7 of 20 after 0:03; saved as my runs/a/checkpoint-7\n"
            "  the same command resumes from there\n");
}

}  // namespace
}  // namespace trireme
