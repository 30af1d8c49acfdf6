// Checkpoints written under one layout and read under another, with many ranks simulated by one process; how
// damaged ones are refused; which of several is chosen.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <numeric>

#include "checkpoint/manifest.h"
#include "checkpoint/run_checkpoints.h"
#include "checkpoint/store_reader.h"
#include "checkpoint/store_writer.h"
#include "core/base/file.h"
#include "core/plan/file_pieces.h"
#include "tests/checkpoint/scratch.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct TestLayout {
  int tensor = 1;
  int data = 1;
  bool shares = true;  // the data ranks hold shards; otherwise copies
};

const std::vector<TestLayout> kLayouts = {{1, 1}, {2, 1}, {4, 1}, {1, 3}, {2, 2}, {4, 2}, {2, 3, false}};

// Fused rows with shared heads, a split second dim, a padded vocabulary, a norm.
std::vector<Parameter> Parameters(int tensor) {
  const Block heads{.size = 16, .parts = tensor, .unit = 4}, shared{.size = 8, .parts = std::min(tensor, 2), .unit = 4};
  std::vector<Parameter> list;
  list.push_back(StackedParameter({.name = "qkv", .dims = {SplitDim("tp", {heads, shared, shared}), WholeDim(6)}},
                                  {"q", "k", "v"}));
  list.push_back(
      PlainParameter({.name = "out", .dims = {WholeDim(5), SplitDim("tp", {{.size = 16, .parts = tensor}})}}, "o"));
  list.push_back(PlainParameter(
      {.name = "words",
       .dims = {SplitDim("tp", {{.size = 13, .parts = tensor, .padding = PaddingTo(13, tensor)}}), WholeDim(3)}},
      "embed"));
  list.push_back(PlainParameter({.name = "norm", .dims = {WholeDim(7)}}, "norm"));
  return list;
}

// The value of element `place` of a file's tensor, different for all.
float ValueAt(const std::string& name, int64_t place) {
  return static_cast<float>(name.size() * 100000 + static_cast<size_t>(name[0]) * 1000 + static_cast<size_t>(place));
}

// One rank's memory for a parameter: its shard of the local tensor.
struct Held {
  Parameter parameter;
  std::vector<float> memory;
  Shard shard;
};

std::vector<Held> HoldAll(const TestLayout& layout, int rank) {
  const Grids grids = MakeGrids(layout.tensor * layout.data, {.tensor = layout.tensor});
  std::vector<Held> all;
  for (Parameter& parameter : Parameters(layout.tensor)) {
    const Placement placement(parameter.declaration, grids);
    const int64_t elements = Elements(placement.LocalShape());
    const int64_t index = layout.shares ? grids.dense.Coordinate(rank, "dp") : 0;
    const int64_t shares = layout.shares ? layout.data : 1;
    const FlatShare share{elements * index / shares, elements * (index + 1) / shares,
                          layout.shares ? AxisNames{"dp"} : AxisNames{}};
    std::vector<float> memory(static_cast<size_t>(share.end - share.begin + 1), -7);
    Shard shard = FlatShard(placement, rank, share, "exp_avg/" + placement.name(), DType::kFp32, memory.data());
    all.push_back({std::move(parameter), std::move(memory), std::move(shard)});
  }
  return all;
}

// Calls `visit(value, expected)` for each element that the piece names.
template <typename Visit>
void ForEach(const Held& held, const FilePiece& piece, Visit visit) {
  const Shape strides = RowMajorStrides(piece.tensor->shape);
  for (int64_t i = 0; i < piece.box.elements(); ++i) {
    int64_t in_file = 0, in_memory = piece.offset, rest = i;
    for (size_t dim = piece.box.extent.size(); dim-- > 0; rest /= piece.box.extent[dim]) {
      in_file += (piece.box.offset[dim] + rest % piece.box.extent[dim]) * strides[dim];
      in_memory += rest % piece.box.extent[dim] * piece.strides[dim];
    }
    visit(static_cast<float*>(held.shard.data)[in_memory], ValueAt(piece.tensor->name, in_file));
  }
}

void WriteUnder(const TestLayout& layout, const fs::path& directory, int64_t step = 1,
                std::optional<double> validation_loss = std::nullopt) {
  BeginAside(directory);
  const int ranks = layout.tensor * layout.data;
  for (int rank = 0; rank < ranks; ++rank) {
    RankFileWriter file(directory, rank);
    for (const Held& held : HoldAll(layout, rank)) {
      for (const FilePiece& piece : FilePieces(held.parameter, held.shard)) {
        ForEach(held, piece, [](float& value, float wanted) { value = wanted; });
        if (piece.replica != 0) continue;
        file.Write({.key = "exp_avg/" + piece.tensor->name,
                    .dtype = DType::kFp32,
                    .shape = piece.tensor->shape,
                    .box = piece.box,
                    .data = static_cast<float*>(held.shard.data) + piece.offset,
                    .strides = piece.strides});
      }
    }
    file.Close();
  }
  checkpoint::Manifest header;
  header.set_writer("test");
  header.mutable_progress()->set_step(step);
  if (validation_loss) header.mutable_progress()->set_validation_loss(*validation_loss);
  CommitCheckpoint(directory, ranks, header);
}

int64_t ReadUnder(const TestLayout& layout, const fs::path& directory) {
  int64_t compared = 0;
  for (int rank = 0; rank < layout.tensor * layout.data; ++rank) {
    StoreReader reader(directory);
    for (const Held& held : HoldAll(layout, rank)) {
      for (const FilePiece& piece : FilePieces(held.parameter, held.shard)) {
        reader.Read(reader.Find("exp_avg/" + piece.tensor->name), piece.box,
                    {DType::kFp32, static_cast<float*>(held.shard.data) + piece.offset, piece.strides});
        ForEach(held, piece, [&](float& value, float wanted) {
          EXPECT_EQ(value, wanted) << piece.tensor->name;
          ++compared;
        });
      }
      EXPECT_EQ(held.memory.back(), -7);  // elements that belong to nobody stay unchanged
    }
    reader.Verify(rank, layout.tensor * layout.data);
  }
  return compared;
}

TEST(Store, AnyLayoutIsReadUnderAnyOther) {
  for (const TestLayout& writer : kLayouts) {
    const Scratch scratch;
    WriteUnder(writer, scratch.path() / "checkpoint-1");
    for (const TestLayout& reader : kLayouts) {
      SCOPED_TRACE(Concat("tp ", writer.tensor, " dp ", writer.data, " to tp ", reader.tensor, " dp ", reader.data));
      EXPECT_GE(ReadUnder(reader, scratch.path() / "checkpoint-1"), 32 * 6 + 5 * 16 + 13 * 3 + 7);
    }
  }
}

TEST(Store, ACheckpointWithHolesIsNotPublished) {
  const Scratch scratch;
  const fs::path directory = scratch.path() / "checkpoint-1";
  const std::vector<float> upper_half(6, 1);
  BeginAside(directory);
  RankFileWriter file(directory, 0);
  file.Write({.key = "weights/w",
              .dtype = DType::kFp32,
              .shape = {4, 3},
              .box = {{0, 0}, {2, 3}},
              .data = upper_half.data(),
              .strides = {3, 1}});
  file.Close();
  const std::string refusal = ErrorOf([&] { CommitCheckpoint(directory, 1, {}); });
  EXPECT_NE(refusal.find("weights/w"), std::string::npos) << refusal;
  EXPECT_FALSE(fs::exists(directory));
}

class Damaged : public testing::Test {
 protected:
  void SetUp() override { WriteUnder({2, 2}, directory_); }
  std::string Refusal() {
    return ErrorOf([&] { StoreReader(directory_).Verify(); });
  }
  void Edit(const std::function<void(checkpoint::Manifest&)>& edit) {
    checkpoint::Manifest manifest = ReadManifest(directory_);
    edit(manifest);
    WriteManifestFile(directory_ / kManifestFile, manifest);
  }
  Scratch scratch_;
  fs::path directory_ = scratch_.path() / "checkpoint-1";
};

TEST_F(Damaged, AFlippedByteIsFoundWithFileAndTensor) {
  EXPECT_EQ(Refusal(), "no error");
  const checkpoint::Manifest manifest = ReadManifest(directory_);
  const checkpoint::Tensor& tensor = manifest.tensors(1);
  const checkpoint::Piece& piece = tensor.pieces(1);
  const fs::path file = directory_ / manifest.files(static_cast<int>(piece.file())).name();
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(piece.byte_offset()) + 5);
  const int old = stream.get();
  stream.seekp(static_cast<std::streamoff>(piece.byte_offset()) + 5);
  stream.put(static_cast<char>(old ^ 0x10));
  stream.close();
  const std::string refusal = Refusal();
  EXPECT_NE(refusal.find(file.string() + ": " + tensor.key() + " " + ToText(BoxOf(piece))), std::string::npos)
      << refusal;
  EXPECT_NE(refusal.find("the file is damaged"), std::string::npos) << refusal;
  // Also if only this tensor is read.
  std::vector<float> memory(static_cast<size_t>(Elements(ShapeOf(tensor))));
  EXPECT_EQ(ErrorOf([&] {
              StoreReader reader(directory_);
              reader.ReadWhole(reader.Find(tensor.key()), memory.data());
            }),
            refusal);
}

// Ranks share the verification by files: whichever is damaged, one of them finds it, and no other reads it.
TEST_F(Damaged, EachFileIsVerifiedByOneOfTheRanks) {
  const checkpoint::Manifest manifest = ReadManifest(directory_);
  std::map<uint32_t, uint64_t> bytes;  // of a piece in each file: its first
  for (const checkpoint::Tensor& tensor : manifest.tensors())
    for (const checkpoint::Piece& piece : tensor.pieces()) bytes.emplace(piece.file(), piece.byte_offset());
  ASSERT_EQ(bytes.size(), 4u);
  for (const auto& [number, at] : bytes) {
    const fs::path file = directory_ / manifest.files(static_cast<int>(number)).name();
    const std::string good = ReadTextFile(file.string());
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    std::ofstream(file, std::ios::binary) << bad;
    for (int share = 0; share < 3; ++share) {
      const bool refused = ErrorOf([&] { StoreReader(directory_).Verify(share, 3); }) != "no error";
      EXPECT_EQ(refused, static_cast<int>(number) % 3 == share) << file << ", share " << share;
    }
    std::ofstream(file, std::ios::binary) << good;
  }
}

TEST_F(Damaged, ManifestsThatDoNotFit) {
  const fs::path manifest = directory_ / kManifestFile;
  const struct {
    std::function<void(checkpoint::Manifest&)> edit;
    std::string refusal;
  } kCases[] = {
      {[](auto& m) { m.set_format(9); }, "has format 9, written by test; this program reads formats 1 to 2"},
      {[](auto& m) { m.mutable_tensors(0)->mutable_pieces()->RemoveLast(); }, "elements in its pieces; wanted"},
      {[](auto& m) { m.mutable_tensors(0)->mutable_pieces(0)->set_offset(0, -1); }, "outside the tensor"},
      {[](auto& m) { m.mutable_tensors(0)->mutable_pieces(0)->set_extent(0, int64_t{1} << 62); }, "outside the tensor"},
      {[](auto& m) { *m.mutable_tensors(0)->mutable_pieces(1) = m.tensors(0).pieces(0); }, "exp_avg/"},
      {[](auto& m) { m.mutable_tensors(0)->mutable_pieces(0)->set_byte_offset(uint64_t{1} << 40); },
       "outside its file"},
      {[](auto& m) { m.mutable_tensors(0)->mutable_pieces(0)->set_file(99); }, "outside its file"},
      {[](auto& m) { m.mutable_tensors(0)->set_dtype("fp99"); }, "element type 'fp99' is unknown"},
      {[](auto& m) { m.mutable_files(1)->set_bytes(7); }, "rank-00001.h5: has "},
  };
  const checkpoint::Manifest good = ReadManifest(directory_);
  for (const auto& one : kCases) {
    Edit(one.edit);
    EXPECT_NE(Refusal().find(one.refusal), std::string::npos) << one.refusal << " gave: " << Refusal();
    WriteManifestFile(manifest, good);
  }
  std::ofstream(manifest) << "no manifest";
  EXPECT_EQ(Refusal(), manifest.string() + ": is not a checkpoint's manifest, or is damaged");
}

TEST_F(Damaged, AMissingFile) {
  fs::remove(directory_ / "rank-00002.h5");
  EXPECT_NE(Refusal().find((directory_ / "rank-00002.h5").string() + ": a file of the checkpoint is missing"),
            std::string::npos);
}

TEST_F(Damaged, MutatedManifestsAreRefused) {
  const std::string text = ReadTextFile((directory_ / kManifestFile).string());
  uint32_t random = 1;
  const auto next = [&] { return random = random * 1664525 + 1013904223, random >> 8; };
  for (int i = 0; i < 800; ++i) {
    std::string bad = text;
    for (uint32_t edits = next() % 3 + 1; edits > 0; --edits) bad[next() % bad.size()] = static_cast<char>(next());
    if (next() % 8 == 0) bad.resize(next() % bad.size());
    std::ofstream(directory_ / kManifestFile, std::ios::binary) << bad;
    EXPECT_EQ(Refusal() == "no error", bad == text) << "mutation " << i;
  }
}

// The step, a key, a digest: whichever bit is flipped, nobody resumes from it.
TEST_F(Damaged, EveryFlippedBitOfTheManifestIsRefused) {
  const fs::path manifest = directory_ / kManifestFile;
  const std::string text = ReadTextFile(manifest.string());
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string bad = text;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    std::ofstream(manifest, std::ios::binary) << bad;
    const std::string refusal = ErrorOf([&] { ReadManifest(directory_); });
    ASSERT_EQ(refusal.find(manifest.string() + ": "), 0u) << "bit " << bit << ": " << refusal;
  }
}

TEST_F(Damaged, AStepThatDiffersFromTheName) {
  WriteUnder({1, 1}, scratch_.path() / "checkpoint-64", 124);
  const fs::path other = scratch_.path() / "checkpoint-64";
  EXPECT_EQ(ErrorOf([&] { ReadManifest(other / ""); }),
            (other / "").string() +
                ": its manifest has step 124, its name step 64; rename it back, or resume "
                "from another checkpoint");
  fs::rename(other, scratch_.path() / "best");
  EXPECT_EQ(ErrorOf([&] { ReadManifest(scratch_.path() / "best"); }), "no error");
}

TEST_F(Damaged, ADuplicateKey) {
  Edit([](checkpoint::Manifest& m) { m.mutable_tensors(1)->set_key(m.tensors(0).key()); });
  EXPECT_NE(Refusal().find("' twice"), std::string::npos) << Refusal();
}

TEST_F(Damaged, FormatOneIsReadWithAWarning) {
  checkpoint::Manifest old = ReadManifest(directory_);
  old.set_format(1);
  old.clear_crc32c();
  old.clear_others();
  for (checkpoint::File& file : *old.mutable_files()) file.clear_crc32c();
  std::ofstream(directory_ / kManifestFile, std::ios::binary) << old.SerializeAsString();
  testing::internal::CaptureStderr();
  EXPECT_EQ(Refusal(), "no error");
  EXPECT_EQ(StoreReader(directory_).VerifyFiles(), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string warning = "format 1 has no digest over the manifest";
  EXPECT_NE(said.find(warning), std::string::npos) << said;
  EXPECT_EQ(said.find(warning), said.rfind(warning)) << "the warning must appear once: " << said;
}

// Each byte of each file is covered by a piece's digest, its file's or the manifest's.
TEST_F(Damaged, AnyByteOfAnyFileIsCovered) {
  std::ofstream(directory_ / "not-ours.txt") << "a file that somebody put there is not damage";
  EXPECT_EQ(StoreReader(directory_).VerifyFiles(), 4 + 1);  // four ranks' and the index
  for (const auto& entry : fs::directory_iterator(directory_)) {
    if (entry.path().filename() == "not-ours.txt") continue;
    const std::string good = ReadTextFile(entry.path().string());
    for (size_t at = 0; at < good.size(); at += 41) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 4);
      std::ofstream(entry.path(), std::ios::binary) << bad;
      const std::string refusal = ErrorOf([&] {
        StoreReader reader(directory_);
        reader.Verify();
        reader.VerifyFiles();
      });
      ASSERT_NE(refusal.find(entry.path().string()), std::string::npos) << "byte " << at << ": " << refusal;
    }
    std::ofstream(entry.path(), std::ios::binary) << good;
  }
}

TEST(RunCheckpoints, OnlyANumberNamesAStep) {
  EXPECT_EQ(StepOfName("checkpoint-12"), 12);
  EXPECT_EQ(StepOfName("checkpoint-0"), 0);
  for (const std::string name : {"checkpoint-12.part", "checkpoint-12.going", "checkpoint-1x", "checkpoint-",
                                 "checkpoint--1", "checkpoint", "12", "best", ""}) {
    EXPECT_FALSE(StepOfName(name)) << name;
  }
}

TEST(RunCheckpoints, TheNewestCompleteOneIsChosen) {
  const Scratch scratch;
  EXPECT_FALSE(NewestComplete(scratch.path() / "nothing"));
  for (const int64_t step : {9, 10, 2}) WriteUnder({1, 2}, CheckpointPath(scratch.path(), step), step);
  fs::create_directory(scratch.path() / "checkpoint-11");       // no manifest
  fs::create_directory(scratch.path() / "checkpoint-12.part");  // an interrupted save
  EXPECT_EQ(NewestComplete(scratch.path())->step, 10);
  fs::remove(scratch.path() / "checkpoint-10" / "rank-00001.h5");
  std::vector<std::string> passed_over;
  EXPECT_EQ(NewestComplete(scratch.path(), &passed_over)->step, 9);
  ASSERT_EQ(passed_over.size(), 1u);
  EXPECT_NE(passed_over[0].find("rank-00001.h5"), std::string::npos);
}

TEST(RunCheckpoints, ADamagedOneDoesNotStopTheRemoval) {
  const Scratch scratch;
  for (const int64_t step : {1, 2, 3}) WriteUnder({1, 1}, CheckpointPath(scratch.path(), step), step, 1.0);
  std::ofstream(scratch.path() / "checkpoint-2" / kManifestFile) << "damaged";
  RemoveOldCheckpoints(scratch.path(), 1);
  EXPECT_FALSE(fs::exists(scratch.path() / "checkpoint-2"));
  EXPECT_TRUE(fs::exists(scratch.path() / "checkpoint-3"));
}

TEST(RunCheckpoints, KeepsTheNewestAndTheBest) {
  const Scratch scratch;
  const std::vector<double> losses = {3.0, 1.5, 2.0, 2.5, 2.6};
  for (size_t i = 0; i < losses.size(); ++i) {
    WriteUnder({1, 1}, CheckpointPath(scratch.path(), static_cast<int64_t>(i)), static_cast<int64_t>(i), losses[i]);
  }
  const auto steps = [&] {
    std::vector<int64_t> list;
    for (const RunCheckpoint& one : FindCheckpoints(scratch.path())) list.push_back(one.step);
    return list;
  };
  RemoveOldCheckpoints(scratch.path(), 0);
  EXPECT_EQ(steps().size(), 5u);
  RemoveOldCheckpoints(scratch.path(), 2);
  EXPECT_EQ(steps(), (std::vector<int64_t>{1, 3, 4}));
}

TEST(Store, AnExistingDirectoryIsNotOverwritten) {
  const Scratch scratch;
  const fs::path directory = scratch.path() / "checkpoint-1";
  fs::create_directory(directory);
  std::ofstream(directory / "mine") << "mine";
  EXPECT_EQ(ErrorOf([&] { BeginAside(directory); }),
            directory.string() + " already exists; move it away or choose another directory");
  BeginAside(directory, /*replace=*/true);
  EXPECT_TRUE(fs::exists(directory / "mine"));  // until the new one is complete
  Publish(directory);
  EXPECT_FALSE(fs::exists(directory / "mine"));
  EXPECT_FALSE(fs::exists(PartOf(directory)));
}

}  // namespace
}  // namespace trireme
