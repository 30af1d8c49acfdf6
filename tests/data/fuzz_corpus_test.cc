// Files that others made, broken in many ways (tests/corpus, made by its script): each is read or refused with a
// message, never anything else. What a form of file must refuse is in the tests of its reader; here the sanitizers look
// on.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "checkpoint/adapter_config.h"
#include "core/base/file.h"
#include "data/indexed_file.h"
#include "data/records.h"
#include "data/samples.h"
#include "tests/data/scratch.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct Outcomes {
  int read = 0, refused = 0;
};

// `use` of every file of a kind: it returns, or refuses the file as input.
template <class Use>
Outcomes OfEach(const std::string& kind, Use use) {
  Outcomes outcomes;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(TRIREME_CORPUS) / kind)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    try {
      use(file);
      ++outcomes.read;
    } catch (const Error& error) {
      ++outcomes.refused;
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << file << ": " << error.what();
      EXPECT_NE(std::string(error.what()), "") << file;
    } catch (const std::exception& other) {
      ADD_FAILURE() << file << ": " << other.what();
    }
  }
  return outcomes;
}

// All of them, each as a sample.
void ReadAll(const fs::path& file) {
  const std::unique_ptr<RecordFile> records = OpenRecords(file);
  for (int64_t i = 0; i < records->size(); ++i) {
    UseRecord(*records, i, [](Json record) { return ReadSample(std::move(record), {}); });
  }
}

void ExpectBoth(const Outcomes& outcomes) {
  EXPECT_GT(outcomes.read, 0) << "nothing is read: the test shows nothing";
  EXPECT_GT(outcomes.refused, outcomes.read) << "most are broken";
}

TEST(FuzzCorpus, AdapterConfigs) {
  ExpectBoth(OfEach("adapter_config", [](const fs::path& file) {
    const AdapterConfig config(ReadTextFile(file.string()), file.string());
    EXPECT_GT(config.RankOf("model.layers.0.self_attn.q_proj"), 0);
    EXPECT_GE(config.AlphaOf("model.layers.0.self_attn.q_proj"), 0);
  }));
}

TEST(FuzzCorpus, Csv) {
  const Outcomes outcomes = OfEach("csv", ReadAll);
  EXPECT_GT(outcomes.read, 0);
  EXPECT_GT(outcomes.refused, 5);
}

class FuzzCorpusOfPairs : public ScratchTest {};  // each file is copied beside another

TEST_F(FuzzCorpusOfPairs, IndexedTokens) {
  const fs::path prefix = folder_ / "tokens";
  std::ofstream(prefix.string() + ".bin", std::ios::binary) << std::string(24, '\1');
  ExpectBoth(OfEach("idx", [&](const fs::path& file) {
    fs::copy_file(file, prefix.string() + ".idx", fs::copy_options::overwrite_existing);
    const IndexedFile indexed(prefix);
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < indexed.documents(); ++i) indexed.Append(i, 0, indexed.DocumentLength(i), tokens);
    EXPECT_LE(tokens.size(), size_t{12}) << file;
  }));
}

TEST(FuzzCorpus, RecordsWithTools) { ExpectBoth(OfEach("records", ReadAll)); }

TEST(FuzzCorpus, CompressedLines) { ExpectBoth(OfEach("gz", ReadAll)); }

// Their names are of no format: only read.
TEST(FuzzCorpus, Parquet) {
  ExpectBoth(OfEach("parquet", [](const fs::path& file) {
    const std::unique_ptr<RecordFile> records = OpenRecords(file);
    for (int64_t i = 0; i < records->size(); ++i) EXPECT_FALSE(records->Read(i).empty());
  }));
}

}  // namespace
}  // namespace trireme
