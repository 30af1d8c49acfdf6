// Which files of a model are downloaded, and in which order.
#include "web/hub/hub_files.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(HubFilesTest, OnlyThoseThatAreNeeded) {
  const std::vector<std::string> needed = {"chat_template.jinja",
                                           "generation_config.json",
                                           "merges.txt",
                                           "model-00001-of-2.safetensors",
                                           "model.safetensors.index.json",
                                           "special_tokens_map.json",
                                           "tokenizer.json",
                                           "tokenizer.model",
                                           "tokenizer_config.json",
                                           "vocab.json",
                                           "config.json"};
  std::vector<std::string> all = {".gitattributes",    "README.md",
                                  "pytorch_model.bin", "pytorch_model.bin.index.json",
                                  "model.gguf",        "onnx/model.onnx",
                                  "original/x.pth",    "consolidated.safetensors",
                                  "modeling.py",       "../config.json",
                                  "/config.json",      ".safetensors",
                                  "x\n.safetensors",   "",
                                  "sub/config.json"};
  all.insert(all.begin(), needed.rbegin(), needed.rend());
  all.push_back("config.json");
  EXPECT_EQ(NeededFiles(all), needed);
}

TEST(HubFilesTest, OfAnAdapter) {
  const std::vector<std::string> files =
      NeededFiles({"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"});
  EXPECT_EQ(files, (std::vector<std::string>{"adapter_model.safetensors", "tokenizer.json", "adapter_config.json"}));
  EXPECT_FALSE(MakesAModel("tokenizer_config.json"));
}

TEST(HubFilesTest, InAddresses) {
  EXPECT_EQ(PercentEncoded("model-1_a.safetensors~"), "model-1_a.safetensors~");
  EXPECT_EQ(PercentEncoded("a b%?#/\xc3\xa9"), "a%20b%25%3F%23%2F%C3%A9");
}

}  // namespace
}  // namespace trireme
