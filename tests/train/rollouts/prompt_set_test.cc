// Prompts of records: what of them reaches the model, and what is refused because it would not.
#include "train/rollouts/prompt_set.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/config/load.h"

namespace trireme {
namespace {

class PromptSetTest : public testing::Test {
 protected:
  PromptSetTest() : folder_(std::filesystem::temp_directory_path() / ("prompts-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "tools.jinja")
        << "{% for tool in tools or [] %}[{{ tool.function.name }}]{% endfor %}{% for message in messages %}"
           "<{{ message.role }}>{{ message.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  }
  ~PromptSetTest() override { std::filesystem::remove_all(folder_); }

  std::string TextOf(const std::string& record, const std::string& more = "") const {
    std::ofstream(folder_ / "prompts.jsonl") << record << "\n";
    const Config config =
        ParseConfig(Concat("stage: grpo\nmodel: {path: ", TRIREME_EXAMPLE, "}\ndata: {train: ['",
                           (folder_ / "prompts.jsonl").string(), "'], max_length: 512, template: '",
                           (folder_ / "tools.jinja").string(), "'", more, "}\nrl: {max_new_tokens: 8}"),
                    "test");
    try {
      return PromptSet(config, 260).at(0).text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      const std::string said = error.what();
      return said.substr(said.find(": ") + 2);
    }
  }

  const std::filesystem::path folder_;
};

constexpr char kTool[] = R"("tools": [{"type": "function", "function": {"name": "look_up", "parameters": {}}}])";

TEST_F(PromptSetTest, RendersTheRecordsTools) {
  EXPECT_EQ(TextOf(Concat(R"({"prompt": [{"role": "user", "content": "q"}], )", kTool, "}")),
            "[look_up]<user>q<assistant>");
  EXPECT_EQ(TextOf(Concat(R"({"query": "q", )", kTool, "}")), "[look_up]<user>q<assistant>");
  EXPECT_EQ(TextOf(R"({"query": "q"})"), "<user>q<assistant>");
}

TEST_F(PromptSetTest, RefusesWhatWouldBeLost) {
  EXPECT_EQ(
      TextOf(Concat(R"({"prompt_ids": [1, 2], )", kTool, "}")),
      "has 'tools', which only a prompt of messages can have; write it as messages, or drop them with data.columns: "
      "[tools=unused]");
  EXPECT_NE(TextOf(Concat(R"({"prompt": "q", )", kTool, "}")).find("has 'tools'"), std::string::npos);
  EXPECT_NE(TextOf(R"({"query": "q", "tools": 0.5})").find("'tools' is 0.5"), std::string::npos);
  EXPECT_NE(TextOf(R"({"query": "q", "images": ["a.png"]})").find("has 'images', which would be lost"),
            std::string::npos);
  EXPECT_EQ(TextOf(R"({"query": "q", "images": ["a.png"]})", ", columns: [images=unused]"), "<user>q<assistant>");
  EXPECT_NE(TextOf(R"({"query": "q", "objects": {"bbox": [[1, 2, 3, 4]]}})").find("has 'objects'"), std::string::npos);
}

}  // namespace
}  // namespace trireme
