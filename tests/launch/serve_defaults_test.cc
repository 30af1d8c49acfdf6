// What a server takes where a request says nothing: from the model's generation_config.json, then from options; and
// which values are refused before any weights are read.
#include "launch/serve_defaults.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"

namespace trireme {
namespace {

using Words = std::vector<std::pair<std::string, std::string>>;

class ServeDefaultsTest : public ::testing::Test {
 protected:
  ServeDefaultsTest() { std::filesystem::create_directories(folder_); }
  ~ServeDefaultsTest() override { std::filesystem::remove_all(folder_); }

  void WriteFile(const std::string& text) const { std::ofstream(folder_ / "generation_config.json") << text; }
  GenerationDefaults Defaults(const Words& words) const {
    Arguments arguments;
    for (const Option& option : DefaultsOptions()) arguments.Declare(option.name);
    for (const auto& [name, value] : words) arguments.Add(name, value);
    return DefaultsOf(arguments, folder_.string());
  }
  std::string Refusal(const Words& words) const {
    try {
      Defaults(words);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "served";
  const Words file_ = {{"generation-config", ""}};
};

TEST_F(ServeDefaultsTest, WithoutOptionsTheyAreOpenAis) {
  WriteFile(R"({"temperature": 0.6})");
  const GenerationDefaults defaults = Defaults({});
  EXPECT_DOUBLE_EQ(defaults.temperature, 1);
  EXPECT_DOUBLE_EQ(defaults.top_p, 1);
  EXPECT_EQ(defaults.top_k, 0);
  EXPECT_FALSE(defaults.max_tokens);
}

TEST_F(ServeDefaultsTest, OptionsWinOverTheModelsFile) {
  WriteFile(R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": null,
                "repetition_penalty": 1.05, "max_new_tokens": 300, "eos_token_id": [1, 2]})");
  const GenerationDefaults of_file = Defaults(file_);
  EXPECT_DOUBLE_EQ(of_file.temperature, 0.6);
  EXPECT_DOUBLE_EQ(of_file.top_p, 0.9);
  EXPECT_EQ(of_file.top_k, 20);
  EXPECT_DOUBLE_EQ(of_file.repetition_penalty, 1.05);
  EXPECT_EQ(of_file.max_tokens, 300);
  const GenerationDefaults both = Defaults({file_[0], {"temperature", "0"}, {"top-k", "5"}, {"max-new-tokens", "7"}});
  EXPECT_DOUBLE_EQ(both.temperature, 0);
  EXPECT_EQ(both.top_k, 5);
  EXPECT_EQ(both.max_tokens, 7);
  EXPECT_DOUBLE_EQ(both.top_p, 0.9);
}

TEST_F(ServeDefaultsTest, WithoutSamplingTheModelIsGreedy) {
  WriteFile(R"({"do_sample": false, "temperature": 0.6})");
  EXPECT_DOUBLE_EQ(Defaults(file_).temperature, 0);
}

TEST_F(ServeDefaultsTest, WhatNoRequestMayAskForIsRefused) {
  EXPECT_NE(Refusal(file_).find("there is no"), std::string::npos);
  for (const auto& [name, value] : Words{{"temperature", "2.5"},
                                         {"top-p", "0"},
                                         {"top-p", "1.1"},
                                         {"min-p", "-1"},
                                         {"presence-penalty", "3"},
                                         {"repetition-penalty", "0"},
                                         {"top-k", "-2"},
                                         {"max-new-tokens", "0"},
                                         {"temperature", "warm"}}) {
    EXPECT_NE(Refusal({{name, value}}).find("--" + name), std::string::npos) << name << " " << value;
  }
  for (const auto& [text, word] : Words{{R"({"temperature": 3})", "temperature"},
                                        {R"({"top_p": "much"})", "top_p"},
                                        {R"({"top_k": 1.5})", "top_k"},
                                        {R"({"max_new_tokens": 0})", "max_new_tokens"},
                                        {"[]", "wanted a JSON object"},
                                        {"{", "wanted a JSON object"}}) {
    WriteFile(text);
    EXPECT_NE(Refusal(file_).find(word), std::string::npos) << text << " " << Refusal(file_);
  }
}

}  // namespace
}  // namespace trireme
