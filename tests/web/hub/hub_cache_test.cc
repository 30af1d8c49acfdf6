// Names of models on hubs: where each library keeps what it has downloaded, and what is not such a name.
#include "web/hub/hub_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"

namespace trireme {
namespace {

class HubCache : public testing::Test {
 protected:
  HubCache() {
    std::string name = (std::filesystem::temp_directory_path() / "trireme-hub-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME",
                                 "MODELSCOPE_CACHE", "USE_MODELSCOPE_HUB", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) {
      unsetenv(variable);
    }
    setenv("HOME", folder_.c_str(), 1);
  }
  ~HubCache() override { std::filesystem::remove_all(folder_); }

  // A model's directory, below the home directory.
  std::string Model(const std::string& path) const {
    std::filesystem::create_directories(folder_ / path);
    std::ofstream(folder_ / path / "config.json") << "{}";
    return (folder_ / path).string();
  }
  void Ref(const std::string& path, const std::string& commit) const {
    std::filesystem::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << commit;
  }

  std::filesystem::path folder_;
};

TEST_F(HubCache, OfHuggingFace) {
  const std::string repository = ".cache/huggingface/hub/models--Qwen--Qwen3-8B";
  const std::string first = Model(repository + "/snapshots/abc"), second = Model(repository + "/snapshots/def");
  Ref(repository + "/refs/main", "def\n");
  Ref(repository + "/refs/old", "abc");
  EXPECT_EQ(ModelDirectory("Qwen/Qwen3-8B", "model.path"), second);
  EXPECT_EQ(ModelDirectory("Qwen/Qwen3-8B@old", "model.path"), first);
  EXPECT_EQ(ModelDirectory("Qwen/Qwen3-8B@abc", "model.path"), first);
  EXPECT_THROW(ModelDirectory("Qwen/Qwen3-8B@other", "model.path"), Error);
}

TEST_F(HubCache, WhereVariablesSay) {
  for (const auto& [variable, value, hub] :
       {std::tuple{"XDG_CACHE_HOME", "xdg", "xdg/huggingface/hub"}, std::tuple{"HF_HOME", "home", "home/hub"},
        std::tuple{"HUGGINGFACE_HUB_CACHE", "old", "old"}, std::tuple{"HF_HUB_CACHE", "hub", "hub"}}) {
    setenv(variable, (folder_ / value).c_str(), 1);  // each comes before those above
    const std::string repository = std::string(hub) + "/models--a--b";
    Ref(repository + "/refs/main", "1");
    const std::string model = Model(repository + "/snapshots/1");
    EXPECT_EQ(ModelDirectory("a/b", "model.path"), model) << variable;
  }
}

TEST_F(HubCache, OfModelScope) {
  const std::string plain = Model(".cache/modelscope/hub/Qwen/Old-1___5");
  EXPECT_EQ(ModelDirectory("Qwen/Old-1.5", "model.path"), plain);
  const std::string later = Model(".cache/modelscope/hub/models/Qwen/Old-1___5");
  EXPECT_EQ(ModelDirectory("Qwen/Old-1.5", "model.path"), later);
  const std::string now = Model(".cache/modelscope/models/Qwen--Old-1.5/snapshots/master");
  EXPECT_EQ(ModelDirectory("Qwen/Old-1.5", "model.path"), now);
  Ref(".cache/huggingface/hub/models--Qwen--Old-1.5/refs/main", "1");
  const std::string other = Model(".cache/huggingface/hub/models--Qwen--Old-1.5/snapshots/1");
  EXPECT_EQ(ModelDirectory("Qwen/Old-1.5", "model.path"), other);
  setenv("USE_MODELSCOPE_HUB", "1", 1);
  EXPECT_EQ(ModelDirectory("Qwen/Old-1.5", "model.path"), now);
  setenv("MODELSCOPE_CACHE", (folder_ / "scope").c_str(), 1);
  EXPECT_EQ(ModelDirectory("Qwen/Old-1.5", "model.path"), other);
  const std::string set = Model("scope/models/Qwen/Old-1___5");
  EXPECT_EQ(ModelDirectory("Qwen/Old-1.5", "model.path"), set);
}

TEST_F(HubCache, KnowsWhetherWeightsAreMissing) {
  const std::string repository = ".cache/huggingface/hub/models--a--b";
  const std::filesystem::path model = Model(repository + "/snapshots/1");
  Ref(repository + "/refs/main", "1");
  const HubName name = *ParseHubName("a/b");
  const auto whole = [&] { return FindCached(name).whole; };
  EXPECT_EQ(FindCached(name).directory, model);
  EXPECT_FALSE(whole());
  std::filesystem::create_symlink("../../blobs/removed", model / "model.safetensors");
  EXPECT_FALSE(whole());
  std::filesystem::remove(model / "model.safetensors");
  std::ofstream(model / "model-1.safetensors") << "x";
  EXPECT_FALSE(whole());
  std::ofstream(model / "model.safetensors") << "x";
  EXPECT_TRUE(whole());
  std::ofstream(model / "model.safetensors.index.json")
      << R"({"weight_map": {"w": "model-1.safetensors", "v": "model-2.safetensors"}})";
  EXPECT_FALSE(whole());
  std::ofstream(model / "model-2.safetensors") << "x";
  EXPECT_TRUE(whole());
  EXPECT_FALSE(FindCached(*ParseHubName("a/c")).whole);
}

TEST_F(HubCache, TakesTheOneWithWeights) {
  Ref(".cache/huggingface/hub/models--a--b/refs/main", "1");
  const std::string bare = Model(".cache/huggingface/hub/models--a--b/snapshots/1");
  EXPECT_EQ(ModelDirectory("a/b", "model.path"), bare);
  const std::filesystem::path full = Model(".cache/modelscope/models/a/b");
  std::ofstream(full / "model.safetensors") << "x";
  EXPECT_EQ(ModelDirectory("a/b", "model.path"), full);
}

TEST_F(HubCache, SaysWhyNothingIsDownloaded) {
  setenv("HF_HUB_OFFLINE", "1", 1);
  try {
    ModelDirectory("a/b", "model.path");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("and HF_HUB_OFFLINE is set, so that nothing is downloaded; use hf download a/b"),
        std::string::npos)
        << error.what();
  }
}

TEST_F(HubCache, SaysWhereItLooked) {
  try {
    ModelDirectory("Qwen/Qwen3-8B", "model.path");
    FAIL();
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    for (const char* part : {"model.path: Qwen/Qwen3-8B is neither a directory nor in a hub's cache",
                             ".cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/main",
                             ".cache/modelscope/hub/models/Qwen/Qwen3-8B", "hf download Qwen/Qwen3-8B"}) {
      EXPECT_NE(what.find(part), std::string::npos) << part << " in " << what;
    }
  }
}

TEST_F(HubCache, OtherPathsStayAsTheyAre) {
  const std::string model = Model("some/model");
  EXPECT_EQ(ModelDirectory(model, "model.path"), model);
  for (const char* path : {"", "model", "base", "/no/where", "./a/b", "../a", "a/b/c", "~/x", "a b/c"}) {
    EXPECT_EQ(ModelDirectory(path, "model.path"), path);
  }
}

}  // namespace
}  // namespace trireme
