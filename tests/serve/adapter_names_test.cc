// Names of adapters, and the directories that clients may name: below the allowed one, whatever the path looks like.
#include "serve/adapter_names.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "web/http/http.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

TEST(AdapterNames, AreSetFoundAndRemoved) {
  AdapterNames names;
  EXPECT_FALSE(names.Set("a", "/somewhere/first/", 1));
  EXPECT_EQ(names.Set("a", "second", 2), 1);
  EXPECT_EQ(names.Find("a")->id, 2);
  EXPECT_EQ(names.Find("a")->folder, "second");
  ASSERT_EQ(names.All().size(), 1);
  EXPECT_EQ(names.All()[0].id, 2);
  EXPECT_EQ(names.Remove("a"), 2);
  EXPECT_FALSE(names.Remove("a"));
  EXPECT_FALSE(names.Find("a"));
}

class AllowedPath : public testing::Test {
 protected:
  AllowedPath() : root_(fs::path(testing::TempDir()) / ("trireme_adapters_" + std::to_string(getpid()))) {
    fs::create_directories(root_ / "allowed" / "good");
    fs::create_directories(root_ / "allowed" / "linked_file");
    fs::create_directories(root_ / "outside");
    std::ofstream(root_ / "outside" / "adapter_model.safetensors") << "x";
    std::ofstream(root_ / "allowed" / "good" / "adapter_config.json") << "{}";
    fs::create_symlink(root_ / "outside", root_ / "allowed" / "link");
    fs::create_symlink(root_ / "allowed" / "good", root_ / "allowed" / "inner_link");
    fs::create_symlink(root_ / "outside" / "adapter_model.safetensors",
                       root_ / "allowed" / "linked_file" / "adapter_model.safetensors");
    fs::create_symlink(root_ / "nowhere", root_ / "allowed" / "broken");
  }
  ~AllowedPath() override { fs::remove_all(root_); }

  // Where it leads; empty: it is refused.
  std::string Found(const std::string& path) const {
    try {
      return AllowedAdapterPath((root_ / "allowed").string(), path);
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      EXPECT_EQ(error.message.find(root_.string()), std::string::npos) << "names a path of the server";
      return "";
    }
  }

  const fs::path root_;
};

TEST_F(AllowedPath, BelowTheDirectoryOnly) {
  const std::string good = fs::canonical(root_ / "allowed" / "good").string();
  EXPECT_EQ(Found("good"), good);
  EXPECT_EQ(Found("./good/../good"), good);
  EXPECT_EQ(Found((root_ / "allowed" / "good").string()), good);
  EXPECT_EQ(Found("inner_link"), good);
  for (const char* path :
       {"", "..", "../outside", "good/../../outside", "link", "linked_file", "broken", "missing", "/etc", "/"}) {
    EXPECT_EQ(Found(path), "") << path;
  }
  EXPECT_EQ(Found(std::string("good\0", 5)), "");
}

TEST(ModelNames, HaveNoBlanks) {
  EXPECT_TRUE(IsModelName("org/name-1.5_b:x"));
  for (const char* name : {"", "a b", "a\n", "a=b", "\x80"}) EXPECT_FALSE(IsModelName(name)) << name;
  EXPECT_FALSE(IsModelName(std::string(129, 'a')));
}

}  // namespace
}  // namespace trireme
