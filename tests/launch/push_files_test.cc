// What of a directory is pushed: weights and what belongs to them, never states of training, and a card for others.
#include "launch/push_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class PushFiles : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(run_);
    fs::create_directories(model_);
  }
  void TearDown() override { fs::remove_all(run_); }
  void Write(const std::string& name, const std::string& text = "x") const {
    fs::create_directories((model_ / name).parent_path());
    std::ofstream(model_ / name) << text;
  }
  std::string Paths() const {
    std::string paths;
    for (const UploadFile& file : FilesToPush(model_.string(), "me/mine").files) paths += file.path + " ";
    return paths;
  }
  std::string Refused() const {
    try {
      FilesToPush(model_.string(), "me/mine");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::string Card() const {
    for (const UploadFile& file : FilesToPush(model_.string(), "me/mine").files) {
      if (file.path == "README.md") return file.text;
    }
    return "";
  }

  const fs::path run_ = fs::path(testing::TempDir()) / "push_files", model_ = run_ / "final";
};

TEST_F(PushFiles, StatesOfTrainingAndUnfinishedFilesStayHere) {
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "README.md", "extra/a.jinja"})
    Write(name);
  for (const char* name :
       {"optimizer.pt", "optimizer_0/x.safetensors", "scheduler.pt", "rng_state_0.pth", ".git/config",
        "trainer_state.json", "model-00002.safetensors.part-7", "x.incomplete", "extra/optimizer.bin"})
    Write(name);
  EXPECT_EQ(Paths(), "README.md config.json extra/a.jinja model.safetensors tokenizer.json ");
  const PushedFiles pushed = FilesToPush(model_.string(), "me/mine");
  EXPECT_EQ(pushed.left_out.size(), 9U);
  EXPECT_FALSE(pushed.has_made_card);
  EXPECT_EQ(Card(), "");  // the directory's own
}

TEST_F(PushFiles, ACardSaysWhatTheWeightsAreMadeFrom) {
  Write("config.json");
  Write("model.safetensors");
  EXPECT_EQ(Card(),
            "---\nlibrary_name: transformers\ntags:\n- trireme\n---\n\n# mine\n\nA model, trained with Trireme.\n");
  std::ofstream(run_ / "run.yaml") << "model: {path: Qwen/Qwen3-8B}\n";
  EXPECT_NE(Card().find("\nbase_model: Qwen/Qwen3-8B\n"), std::string::npos);
  Write("adapter_config.json", R"({"base_model_name_or_path": "org/base"})");
  EXPECT_NE(Card().find("library_name: peft\nbase_model: org/base\ntags:\n- trireme\n- lora\n"), std::string::npos);
  // Places on this machine are nobody's business.
  Write("adapter_config.json", R"({"base_model_name_or_path": "/home/me/base"})");
  EXPECT_EQ(Card().find("me/base"), std::string::npos);
}

TEST_F(PushFiles, RefusesWhatIsNoModel) {
  EXPECT_NE(Refused().find("has no *.safetensors"), std::string::npos);
  Write("model.safetensors");
  EXPECT_NE(Refused().find("has no config.json or adapter_config.json"), std::string::npos);
  Write("config.json");
  EXPECT_EQ(Refused(), "");
  Write("model.safetensors.index.json", R"({"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}})");
  EXPECT_NE(Refused().find("names model-2.safetensors, which is not there"), std::string::npos);
  Write("manifest.pb");
  EXPECT_NE(Refused().find("is a checkpoint"), std::string::npos);
  EXPECT_THROW(FilesToPush((run_ / "missing").string(), "me/mine"), Error);
}

TEST_F(PushFiles, ARunsDirectoryPointsToItsFinal) {
  Write("config.json");
  try {
    FilesToPush(run_.string(), "me/mine");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find((run_ / "final").string()), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme
