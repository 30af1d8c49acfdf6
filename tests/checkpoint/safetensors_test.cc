// The reader trusts nothing: round trips, every inconsistency a header can contain, and thousands of mutated
// files.
#include "checkpoint/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "checkpoint/hf_directory.h"
#include "checkpoint/safetensors_writer.h"
#include "core/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Safetensors : public testing::Test {
 protected:
  Safetensors() : folder_(fs::temp_directory_path() / ("trireme-safetensors-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Safetensors() override { fs::remove_all(folder_); }

  fs::path Raw(const std::string& header, size_t buffer_bytes, int64_t announced = -1) {
    const fs::path path = folder_ / "raw.safetensors";
    std::ofstream file(path, std::ios::binary);
    const uint64_t length = announced < 0 ? header.size() : static_cast<uint64_t>(announced);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << header << std::string(buffer_bytes, '\1');
    return path;
  }

  fs::path folder_;
};

std::string RefusalOf(const fs::path& path) {
  try {
    SafetensorsFile file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "accepted";
}

TEST_F(Safetensors, ReadsBackWhatWasWritten) {
  const std::vector<float> matrix{1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> steps{7};
  const std::vector<uint16_t> half{0x3f80, 0xbf80};
  const fs::path path = folder_ / "model.safetensors";
  WriteSafetensors(path, {{"b", DType::kFp32, {2, 3}, matrix.data()},
                          {"a", DType::kBf16, {2}, half.data()},
                          {"scalar", DType::kInt64, {}, steps.data()},
                          {"empty", DType::kFp32, {0, 4}, nullptr}});
  const SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), 4u);
  const TensorView& b = file.tensors().at("b");
  EXPECT_EQ(b.shape, (Shape{2, 3}));
  EXPECT_EQ(b.dtype, DType::kFp32);
  EXPECT_EQ(std::memcmp(b.bytes.data(), matrix.data(), b.bytes.size()), 0);
  EXPECT_EQ(file.tensors().at("scalar").shape, Shape{});
  EXPECT_EQ(file.tensors().at("scalar").bytes.size(), 8u);
  EXPECT_TRUE(file.tensors().at("empty").bytes.empty());
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "a temporary file was left";
}

TEST_F(Safetensors, NamesEachInconsistency) {
  const struct {
    const char* header;
    size_t buffer_bytes;
    const char* refusal;
  } kLies[] = {
      {R"([1])", 0, "the header does not start with '{'"},
      {R"({"a":)", 0, "the header is not a JSON object"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "the header has the key 'a' twice"},
      {R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4,
       "tensor 'a' has dtype 'F99', which is not supported"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "tensor 'a' has an invalid shape: [-1]"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "tensor 'a' has an impossible shape"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4,
       "tensor 'a' is at bytes 0 to 8 of a buffer of 4 bytes; is the file truncated?"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
       "tensor 'a' has 4 bytes; shape [2] in fp32 needs 8"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
       "tensor 'a' does not start where the previous one ends"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, "has 4 bytes after the last tensor"},
      {R"({"__metadata__":{"k":1}})", 0, "tensor '__metadata__' has a value that is not a string at 'k'"},
      {R"({"a":3})", 0, "tensor 'a' is not an object"},
      {R"({"a":{"shape":[],"data_offsets":[0,0]}})", 0, "tensor 'a' has no dtype"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,0]}})", 0, "tensor 'a' has no shape"},
      {R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0]}})", 0, "tensor 'a' has no pair of data_offsets"},
  };
  for (const auto& lie : kLies) {
    EXPECT_NE(RefusalOf(Raw(lie.header, lie.buffer_bytes)).find(lie.refusal), std::string::npos)
        << lie.header << " gave: " << RefusalOf(Raw(lie.header, lie.buffer_bytes));
  }
  EXPECT_NE(RefusalOf(Raw("{}", 0, 1'000'000)).find("declares a header of 1000000 bytes in a file of 10"),
            std::string::npos);
}

TEST_F(Safetensors, MutatedFilesAreRefusedOrReadWithinTheFile) {
  const std::vector<float> data(64, 1.0f);
  const fs::path path = folder_ / "good.safetensors";
  WriteSafetensors(path, {{"one", DType::kFp32, {4, 8}, data.data()}, {"two", DType::kFp32, {32}, data.data()}});
  std::ifstream in(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  std::mt19937 random(7);
  const int memory_file = memfd_create("mutated", MFD_CLOEXEC);  // thousands of files on disk would be slow
  ASSERT_GE(memory_file, 0);
  const fs::path bad_path = "/proc/self/fd/" + std::to_string(memory_file);
  int refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string bad = good;
    for (uint32_t edits = random() % 3 + 1; edits > 0; --edits)
      bad[random() % std::min<size_t>(bad.size(), 220)] = static_cast<char>(random());
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    ASSERT_EQ(ftruncate(memory_file, 0), 0);
    ASSERT_EQ(pwrite(memory_file, bad.data(), bad.size(), 0), static_cast<ssize_t>(bad.size()));
    try {
      const SafetensorsFile file(bad_path);
      for (const auto& [name, view] : file.tensors()) ASSERT_LE(view.bytes.size(), bad.size());
    } catch (const Error&) {
      ++refused;
    }
  }
  close(memory_file);
  EXPECT_GT(refused, 5'000);
}

TEST_F(Safetensors, DirectoryOfShards) {
  const float value = 5;
  WriteSafetensors(folder_ / "model-00001-of-00002.safetensors", {{"a", DType::kFp32, {1}, &value}});
  WriteSafetensors(folder_ / "model-00002-of-00002.safetensors", {{"b", DType::kFp32, {1}, &value}});
  const auto index = [&](const std::string& text) { std::ofstream(folder_ / "model.safetensors.index.json") << text; };
  const auto refusal = [&](const std::string& name) -> std::string {
    try {
      HfDirectory(folder_).Find(name);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  index(R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
  const HfDirectory directory(folder_);
  EXPECT_EQ(directory.Names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(directory.Find("b").shape, Shape{1});
  EXPECT_NE(refusal("c").find("tensor 'c' is missing"), std::string::npos);
  index(R"({"weight_map":{"a":"model-00003-of-00002.safetensors"}})");
  EXPECT_NE(refusal("a").find("'a' is in 'model-00003-of-00002.safetensors', which is not in the directory"),
            std::string::npos);
  index(R"({"weight_map":{"a":"model-00002-of-00002.safetensors"}})");
  EXPECT_NE(refusal("a").find("tensor 'a' is missing, although the index lists it here"), std::string::npos);
  index("[]");
  EXPECT_NE(refusal("a").find("is not a JSON object"), std::string::npos);
  fs::remove(folder_ / "model.safetensors.index.json");
  EXPECT_NE(refusal("a").find("has no weights; wanted model.safetensors or model.safetensors.index.json"),
            std::string::npos);
}

// Eight times the tensors take about eight times as long; 64 times would mean a scan over all of them for
// each one.
TEST_F(Safetensors, ReadsManyTensorsInLinearTime) {
  const auto seconds = [&](int tensors) {
    std::string header = "{", index = "{\"weight_map\": {";
    for (int i = 0; i < tensors; ++i) {
      const std::string name = "model.layers." + std::to_string(i) + ".weight";
      header += (i > 0 ? ",\"" : "\"") + name + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
      index += (i > 0 ? ",\"" : "\"") + name + R"(":"raw.safetensors")";
    }
    const fs::path file = Raw(header + "}", 0);
    std::ofstream(folder_ / "model.safetensors.index.json") << index << "}}";
    double best = 1e9;
    for (int round = 0; round < 3; ++round) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_EQ(SafetensorsFile(file).tensors().size(), static_cast<size_t>(tensors));
      EXPECT_EQ(HfDirectory(folder_).Names().size(), static_cast<size_t>(tensors));
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  };
  const double few = seconds(2500), many = seconds(20000);
  EXPECT_LT(many, 28 * few) << few << " s and " << many << " s";
}

}  // namespace
}  // namespace trireme
