// Megatron's indexed datasets: what is written is read back, every token is predicted once, broken files are
// refused.
#include "data/indexed_rows.h"

#include <set>

#include "core/config/load.h"
#include "data/dataset.h"
#include "tests/data/scratch.h"

namespace trireme {
namespace {

class Indexed : public ScratchTest {
 protected:
  std::filesystem::path WriteDocuments(const std::vector<int64_t>& lengths, int64_t vocabulary = 60000) const {
    IndexedWriter writer(folder_ / "d", vocabulary);
    int64_t next = 0;
    for (const int64_t length : lengths) {
      std::vector<int64_t> ids(length);
      for (int64_t& id : ids) id = next++;
      writer.Add(ids);
    }
    writer.Commit();
    return folder_ / "d";
  }
  void Damage(const std::string& name, size_t place, char value) const {
    std::fstream file(folder_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(place)).put(value);
  }
};

TEST_F(Indexed, ReadsWhatItWrote) {
  for (const int64_t vocabulary : {60000, 200000}) {
    const IndexedFile file(WriteDocuments({3, 0, 5}, vocabulary));
    EXPECT_EQ(file.documents(), 3);
    EXPECT_EQ(file.DocumentLength(2), 5);
    std::vector<int64_t> ids;
    file.Append(2, 1, 3, ids);
    EXPECT_EQ(ids, (std::vector<int64_t>{4, 5, 6}));
    EXPECT_EQ(std::filesystem::file_size(folder_ / "d.bin"), vocabulary == 60000 ? 16u : 32u);
  }
}

TEST_F(Indexed, EveryTokenButTheFirstIsPredictedOnce) {
  const auto prefix = WriteDocuments({7, 1, 0, 12, 30, 2, 3});
  for (const bool shuffle : {false, true}) {
    const Rows rows = OpenIndexedRows(prefix, {.length = 6, .isolate = false, .shuffle = shuffle, .seed = 5});
    EXPECT_EQ(rows->size(), 54 / 5);
    std::set<int64_t> foretold;
    int64_t last = -1;
    for (int64_t i = 0; i < rows->size(); ++i) {
      const Row row = rows->Read(i);
      ASSERT_EQ(row.input_ids.size(), 6u);
      if (i > 0) {
        EXPECT_EQ(row.input_ids[0], last);
      }
      last = row.input_ids.back();
      for (size_t j = 1; j < 6; ++j) EXPECT_TRUE(foretold.insert(row.labels[j]).second);
      EXPECT_EQ(rows->Trained(i), 5);
    }
    EXPECT_EQ(foretold.size(), 50u);
  }
}

TEST_F(Indexed, DocumentsOfARowAreSeparate) {
  const Rows rows = OpenIndexedRows(WriteDocuments({4, 0, 1, 9}), {.length = 6, .shuffle = false});
  const Row row = rows->Read(0);
  EXPECT_EQ(row.starts, (std::vector<int64_t>{0, 4, 5}));
  EXPECT_EQ(row.labels, (std::vector<int64_t>{-100, 1, 2, 3, -100, -100}));
  EXPECT_EQ(rows->Trained(0), 3);
  EXPECT_EQ(rows->Read(1).starts, (std::vector<int64_t>{0}));
  const Row packed = PackRows(rows, 6)->Read(0);
  EXPECT_EQ(packed.starts, row.starts);
  EXPECT_EQ(packed.labels, row.labels);
}

TEST_F(Indexed, SplitsByDocuments) {
  EXPECT_EQ(PartOfDocuments(1000, {969, 30, 1}, 0).last, 969);
  EXPECT_EQ(PartOfDocuments(1000, {969, 30, 1}, 1).first, 969);
  EXPECT_EQ(PartOfDocuments(1000, {969, 30, 1}, 2).last, 1000);
  EXPECT_EQ(PartOfDocuments(10, {1, 1, 1}, 1).first, 3);
  EXPECT_EQ(PartOfDocuments(10, {1, 1, 1}, 1).last, 7);
  WriteDocuments(std::vector<int64_t>(10, 6));
  const Config config = ParseConfig(Concat("stage: pt\ndata: {train: ['", (folder_ / "d").string(),
                                           "'], max_length: 6, split: [8, 2], cache: '", folder_.string(), "'}"),
                                    "test");
  const DataSets data = OpenDataSets(config, {.vocabulary = 100});
  EXPECT_EQ(data.train->size(), 9);  // 47 of 48 tokens, five per row
  EXPECT_EQ(data.valid->size(), 2);
}

TEST_F(Indexed, RefusesWhatIsBroken) {
  const auto refused = [&] { return RefusalOf([&] { IndexedFile(folder_ / "d"); }); };
  WriteDocuments({3, 4});
  Damage("d.idx", 0, 'X');
  EXPECT_EQ(refused(), "d.idx: is not a Megatron index; wanted a file that begins with MMIDIDX");
  WriteDocuments({3, 4});
  Damage("d.idx", 9, 2);
  EXPECT_EQ(refused(), "d.idx: has version 2; wanted 1");
  WriteDocuments({3, 4});
  Damage("d.idx", 17, 7);
  EXPECT_EQ(refused(), "d.idx: has element type 7; wanted an integer type: 1 to 5, or 8");
  WriteDocuments({3, 4});
  std::filesystem::resize_file(folder_ / "d.idx", 60);
  EXPECT_EQ(refused(), "d.idx: declares 2 sequences and 3 bounds, but has only 60 bytes; is it truncated?");
  WriteDocuments({3, 4});
  std::filesystem::resize_file(folder_ / "d.bin", 12);
  EXPECT_EQ(refused(),
            "d.bin: has 12 bytes; sequence 1 ends at 14. Do both files belong together, and are they complete?");
  WriteDocuments({3, 4});
  Damage("d.idx", 34, 4);  // a length
  EXPECT_EQ(refused(), "d.idx: sequence 1 begins at byte 6; the one before ends at 8. Is the file damaged?");
  WriteDocuments({3, 4});
  Damage("d.idx", 34 + 4, 3);
  EXPECT_EQ(refused(),
            "d.bin: has 14 bytes; the sequences of its .idx end at 12. Do both files belong together, and are they "
            "complete?");
  WriteDocuments({3, 4});
  Damage("d.idx", 34 + 12 * 2 + 8, 9);
  EXPECT_EQ(refused(), "d.idx: document 1 begins at sequence 9; wanted 0 to 2");
  WriteDocuments({3, 4});
  EXPECT_EQ(RefusalOf([&] { OpenIndexedRows(folder_ / "d", {.length = 2, .shuffle = false, .vocabulary = 1}); }),
            "d.bin: has the token 1; the model's vocabulary of 1 is smaller. Was it tokenized for another "
            "model?");
  EXPECT_EQ(RefusalOf([&] { OpenIndexedRows(folder_ / "d", {.length = 9}); }),
            "d.bin: its part of 2 documents has 7 tokens, which fill no row of data.max_length = 9");
}

}  // namespace
}  // namespace trireme
