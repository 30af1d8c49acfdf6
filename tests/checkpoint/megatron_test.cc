// A model becomes a Megatron checkpoint and comes back byte for byte, in both formats, from several layouts; what
// cannot be written is refused before anything is. tests/parity/megatron_write_test.py has torch read the files.
#include "checkpoint/megatron/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <span>

#include "checkpoint/hf_directory.h"
#include "checkpoint/pickle/torch_file.h"
#include "checkpoint/pickle/zip_writer.h"
#include "core/base/file.h"
#include "core/io/mapped_file.h"
#include "tests/checkpoint/megatron_models.h"
#include "tests/checkpoint/scratch.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Format = MegatronExport::Format;

const ProcessGroup kAlone{};

struct Case {
  std::string family;
  MegatronExport options;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.family << " " << MegatronFlags(one.options); }

void ExpectEqual(const HfDirectory& wanted, const HfDirectory& found) {
  ASSERT_EQ(wanted.Names(), found.Names());
  for (const std::string& name : wanted.Names()) {
    const TensorView a = wanted.Find(name), &b = found.Find(name);
    EXPECT_EQ(a.dtype, b.dtype) << name;
    EXPECT_EQ(a.shape, b.shape) << name;
    EXPECT_TRUE(std::ranges::equal(a.bytes, b.bytes)) << name;
  }
}

class RoundTrip : public testing::TestWithParam<Case> {};

TEST_P(RoundTrip, GivesTheSameBytes) {
  const Scratch scratch;
  const TinyModel model(GetParam().family);
  model.Write(scratch.path() / "hf", model.config());
  const HfDirectory source(scratch.path() / "hf");
  MegatronExport options = GetParam().options;
  options.config = model.config().dump();
  ExportMegatron(source, scratch.path() / "megatron", options, kAlone);
  const HfDirectory back(scratch.path() / "megatron");
  EXPECT_TRUE(back.is_of_other_system());
  ExpectEqual(source, back);
  EXPECT_FALSE(fs::exists(scratch.path() / "megatron.part"));
}

INSTANTIATE_TEST_SUITE_P(
    Torch, RoundTrip,
    testing::Values(
        Case{"llama", {}}, Case{"llama", {.layout = {.tensor = 2, .pipeline = 2}, .transformer_engine = true}},
        Case{"qwen2", {.layout = {.tensor = 2, .pipeline = 2}, .virtual_stages = 2, .vocabulary_divisor = 3}},
        Case{"qwen3", {.layout = {.pipeline = 3}, .stage_layers = {1, 2, 1}}},
        Case{"mixtral", {.layout = {.tensor = 2, .expert = 2, .expert_tensor = 2}}},
        Case{"qwen2_moe", {.layout = {.tensor = 2, .expert = 4}, .transformer_engine = true}},
        Case{"qwen3_moe", {.layout = {.pipeline = 4, .expert = 2}}}, Case{"deepseek_v3", {}},
        Case{"deepseek_v3",
             {.layout = {.tensor = 2, .pipeline = 2, .expert = 2, .expert_tensor = 2}, .transformer_engine = true}},
        Case{"deepseek_v3", {.layout = {.tensor = 4, .pipeline = 2, .expert = 2}, .virtual_stages = 2}}));

INSTANTIATE_TEST_SUITE_P(
    TorchDist, RoundTrip,
    testing::Values(Case{"llama", {.format = Format::kTorchDist}},
                    Case{"qwen2", {.format = Format::kTorchDist, .layout = {.tensor = 2, .pipeline = 2}}},
                    Case{"qwen3_moe", {.format = Format::kTorchDist, .layout = {.tensor = 2, .expert = 2}}},
                    Case{"mixtral",
                         {.format = Format::kTorchDist, .layout = {.tensor = 2, .expert = 2, .expert_tensor = 2}}},
                    Case{"deepseek_v3", {.format = Format::kTorchDist, .layout = {.tensor = 2}}}));

class Refusal : public testing::Test {
 protected:
  std::string Refused(const std::string& family, MegatronExport options, Json changes = Json::object(),
                      const std::string& without = "") {
    TinyModel model(family);
    model.Write(scratch_.path() / "hf", model.config());
    Json config = model.config();
    config.update(changes);
    options.config = config.dump();
    const std::string error =
        ErrorOf([&] { ExportMegatron(HfDirectory(scratch_.path() / "hf"), scratch_.path() / "to", options, kAlone); });
    EXPECT_FALSE(fs::exists(scratch_.path() / "to") && without.empty());
    EXPECT_FALSE(fs::exists(scratch_.path() / "to.part"));
    return error;
  }

  Scratch scratch_;
};

void ExpectHas(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST_F(Refusal, NamesSizesThatDoNotDivide) {
  ExpectHas(Refused("llama", {.layout = {.tensor = 4}}),
            "parallel.tensor=4 does not divide the model's 2 heads of keys");
  ExpectHas(Refused("llama", {.layout = {.tensor = 3}}), "parallel.tensor=3 does not divide the model's 4 attention");
  ExpectHas(Refused("llama", {.layout = {.pipeline = 3}}), "does not divide the model's 4 layers");
  ExpectHas(Refused("llama", {.virtual_stages = 2}), "parallel.virtual_stages=2 with parallel.pipeline=1");
  ExpectHas(Refused("llama", {.layout = {.expert = 2}}), "a llama has no experts");
  ExpectHas(Refused("qwen3_moe", {.layout = {.expert = 3}}), "parallel.expert=3 does not divide the model's 4 experts");
  ExpectHas(Refused("qwen3_moe", {.layout = {.expert_tensor = 2}}), "wanted 1 or the same");
  ExpectHas(Refused("llama", {.layout = {.pipeline = 4}, .stage_layers = {1, 2, 0, 1}}), "only the first and the last");
  ExpectHas(Refused("llama", {.layout = {.pipeline = 2}, .stage_layers = {1, 2}}), "with the model's 4 layers");
}

TEST_F(Refusal, NamesModelsThatHaveNoNamesInMegatron) {
  ExpectHas(Refused("llama", {}, {{"model_type", "gemma2"}}), "model_type 'gemma2'");
  ExpectHas(Refused("llama", {}, {{"vocab_size", 12}}), "'model.embed_tokens.weight' has 10 rows");
  ExpectHas(Refused("llama", {}, {{"kv_lora_rank", 4}}), "has no name in Megatron's checkpoints of llama");
}

TEST_F(Refusal, KeepsWhatExists) {
  fs::create_directories(scratch_.path() / "to");
  std::ofstream(scratch_.path() / "to" / "mine") << "mine";
  ExpectHas(Refused("llama", {}, Json::object(), "keeps"), "already exists");
  EXPECT_EQ(ReadTextFile((scratch_.path() / "to" / "mine").string()), "mine");
}

// An MTP layer's own copies of the embedding and the head, as published, are left out if they are copies.
TEST(MegatronCopies, AreLeftOutOrRefused) {
  const Scratch scratch;
  const TinyModel model("deepseek_v3");
  const std::vector<uint16_t> same(static_cast<size_t>(kVocabulary * kHidden), 0x3f80), other(same.size(), 0x4000);
  const Shape shape = {kVocabulary, kHidden};
  int64_t largest = 0;
  for (const auto& [name, its_shape] : model.shapes()) largest = std::max(largest, Elements(its_shape));
  const std::vector<uint16_t> ones(static_cast<size_t>(largest), 0x3f80);
  const auto write = [&](const std::vector<uint16_t>& copy) {
    std::vector<TensorToWrite> tensors;
    for (const auto& [name, its_shape] : model.shapes())
      tensors.push_back({name, DType::kBf16, its_shape, ones.data()});
    tensors.push_back({"model.layers.4.embed_tokens.weight", DType::kBf16, shape, copy.data()});
    fs::create_directories(scratch.path() / "hf");
    WriteSafetensors(scratch.path() / "hf" / "model.safetensors", tensors);
    std::ofstream(scratch.path() / "hf" / "config.json") << model.config().dump();
  };
  const MegatronExport options{.config = model.config().dump()};
  const auto convert = [&](const char* target) {
    return ErrorOf(
        [&] { ExportMegatron(HfDirectory(scratch.path() / "hf"), scratch.path() / target, options, kAlone); });
  };
  write(same);
  EXPECT_EQ(convert("to"), "no error");
  EXPECT_FALSE(HfDirectory(scratch.path() / "to").Has("model.layers.4.embed_tokens.weight"));
  write(other);
  ExpectHas(convert("other"), "'model.layers.4.embed_tokens.weight' is not equal to 'model.embed_tokens.weight'");
}

TEST(ZipWriter, CountsWhatItWritesAndItsLargeNumbersAreRead) {
  const std::string text(100, 'x');
  std::string bytes;
  const auto fill = [&](ZipWriter zip) {
    zip.Add("data.pkl", text);
    zip.Add("data/0", text);
    return zip.Close();
  };
  const uint64_t counted = fill(ZipWriter(nullptr, "archive", 50));
  const uint64_t written = fill(ZipWriter(
      [&](const void* data, size_t count) { bytes.append(static_cast<const char*>(data), count); }, "archive", 50));
  EXPECT_EQ(counted, written);
  EXPECT_EQ(written, bytes.size());
  const ZipDirectory zip(std::as_bytes(std::span(bytes)), "zip");
  const auto found = zip.Find("data/0");
  EXPECT_TRUE(std::ranges::equal(found, std::as_bytes(std::span(text))));
  EXPECT_EQ((reinterpret_cast<const char*>(found.data()) - bytes.data()) % 64, 0);
}

}  // namespace
}  // namespace trireme
