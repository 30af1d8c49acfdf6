// Images in data: where records put them, what a store keeps of them, how rows with them are packed, and the bound of
// what is decoded. tests/parity/images_test.py holds tokens and pixels against transformers.
#include <gtest/gtest.h>

#include "data/image_marks.h"
#include "data/image_rows.h"
#include "data/image_tokens.h"
#include "data/prefetch.h"
#include "data/row_store.h"
#include "data/samples.h"
#include "images/image_source.h"
#include "tests/data/scratch.h"
#include "tests/images/small_images.h"

namespace trireme {
namespace {

class ImageData : public ScratchTest {
 protected:
  Conversation Read(const char* record) const {
    return std::get<Conversation>(ReadSample(ParseJson(record, "it"), {.images = true}));
  }

  // A model that sees, with patches of 14, and files a.jpg and so on; sources are their paths.
  std::shared_ptr<const ImageReader> Reader() const {
    Write("config.json", R"({"vision_config": {}, "image_token_id": 7})");
    Write("preprocessor_config.json", R"({"patch_size": 14, "min_pixels": 3136, "max_pixels": 4000})");
    return std::make_shared<const ImageReader>(ImageReader::Options{.model = folder_.string()});
  }
  RowImage Stored(const ImageReader& reader, const std::string& name, int64_t first = 0) const {
    const std::vector<uint8_t> file = images::FromBase64(images::kSmallImages[3].base64, "png");
    const std::string path = Write(name, {file.begin(), file.end()});
    return {path, reader.GridOf(path), first};
  }
};

TEST_F(ImageData, MarksBecomeParts) {
  const Conversation sample = Read(R"({"messages": [{"role": "user", "content": "a <image>b<image>"},
    {"role": "assistant", "content": "c"}], "images": ["x.png", {"path": "y.png", "bytes": null}]})");
  EXPECT_EQ(sample.images, (std::vector<std::string>{"x.png", "y.png"}));
  EXPECT_EQ(sample.messages[0]["content"].dump(),
            R"([{"type":"text","text":"a "},{"type":"image"},{"type":"text","text":"b"},{"type":"image"}])");
  EXPECT_EQ(sample.messages[1]["content"], "c");
}

TEST_F(ImageData, PartsNameTheirImages) {
  const Conversation sample = Read(R"({"messages": [{"role": "user", "content": ["look: ",
    {"type": "image_url", "image_url": {"url": "a.png"}}, {"type": "text", "text": "and"}, {"type": "image", "image": "b.png"},
    {"type": "image", "source": {"type": "base64", "data": "AAAA"}}, {"type": "image"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "c"}]}], "image": "d.png"})");
  EXPECT_EQ(sample.images, (std::vector<std::string>{"a.png", "b.png", "data:image/unknown;base64,AAAA", "d.png"}));
  EXPECT_EQ(sample.messages[0]["content"].size(), 6u);
  EXPECT_EQ(sample.messages[1]["content"], "c");
}

TEST_F(ImageData, BytesOfTablesBecomeUrls) {
  const std::vector<uint8_t> file = images::FromBase64(images::kSmallImages[0].base64, "jpeg");
  for (size_t length : {file.size(), file.size() - 1, file.size() - 2}) {  // all remainders of three
    const Json::binary_t bytes(std::vector<uint8_t>(file.begin(), file.begin() + static_cast<ptrdiff_t>(length)));
    const std::vector<std::string> listed = ListedImages({{"images", Json::array({{{"bytes", Json(bytes)}}})}});
    const images::ImageSource source(listed.at(0), ".");
    EXPECT_TRUE(std::ranges::equal(source.bytes(), static_cast<const std::vector<uint8_t>&>(bytes)));
  }
}

TEST_F(ImageData, MarksAndImagesMustMatch) {
  const auto refusal = [&](const char* content, const char* images) {
    const std::string record = Concat(R"({"messages": [{"role": "user", "content": )", content,
                                      R"(}, {"role": "assistant", "content": "c"}], "images": )", images, "}");
    return RefusalOf([&] { Read(record.c_str()); });
  };
  EXPECT_EQ(refusal(R"("<image>")", R"(["a.png"])"), "accepted");
  EXPECT_NE(refusal(R"("<image>")", "[]").find("1 <image> marks and 0 images"), std::string::npos);
  EXPECT_NE(refusal(R"("none")", R"(["a.png"])").find("0 <image> marks and 1 images"), std::string::npos);
  EXPECT_NE(refusal(R"([{"type": "video"}, {"type": "image"}])", R"(["a.png"])").find("neither text nor an image"),
            std::string::npos);
  EXPECT_NE(refusal(R"("a")", "[7]").find("'images' has 7"), std::string::npos);
  // A model that does not see: marks are text, images are refused.
  EXPECT_NO_THROW(ReadSample(ParseJson(R"({"query": "<image>", "response": "a"})", "it"), {}));
  EXPECT_THROW(ReadSample(ParseJson(R"({"query": "<image>", "response": "a", "images": ["b"]})", "it"), {}), Error);
}

TEST_F(ImageData, AStoreKeepsThem) {
  const std::vector<RowImage> images = {
      {"a.png", {1, 4, 6}, 1}, {"", {1, 2, 2}, 7}, {"a path of odd length", {3, 10, 12}, 9}};
  {
    RowStoreWriter writer(folder_ / "rows");
    writer.Add({.ids = {1, 2}, .labels = {1, 2}});
    writer.Add({.ids = {1, 2, 3}, .labels = {1, 2, 3}, .weights = {1, 2, 3}, .images = images});
    writer.Add({.ids = {4}, .labels = {4}, .images = {images[2]}});
    writer.Commit(2);
  }
  const RowStore store(folder_ / "rows");
  EXPECT_EQ(store.FindDamage(), std::nullopt);
  EXPECT_EQ(store.Trained(1), 2);
  EXPECT_TRUE(store.Read(0).images.empty());
  EXPECT_EQ(store.Read(1).images, images);
  EXPECT_EQ(store.Read(1).weights, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(store.Read(1).grids, (std::vector<ImageGrid>{{1, 4, 6}, {1, 2, 2}, {3, 10, 12}}));
  EXPECT_EQ(store.Read(2).images, std::vector<RowImage>{images[2]});
  EXPECT_EQ(store.Read(2).input_ids, std::vector<int64_t>{4});
}

Row RowWith(int64_t length, std::vector<RowImage> images) {
  Row row{std::vector<int64_t>(static_cast<size_t>(length), 1), std::vector<int64_t>(static_cast<size_t>(length), 1)};
  for (const RowImage& image : images) row.grids.push_back(image.grid);
  row.images = std::move(images);
  return row;
}

TEST_F(ImageData, ArePackedWithTheirRowsAndNeverCut) {
  const RowImage a{"a", {1, 2, 4}, 3}, b{"b", {1, 6, 4}, 0};
  const Rows rows =
      std::make_shared<RowList>(std::vector<Row>{RowWith(6, {a}), RowWith(4, {b}), RowWith(11, {a}), RowWith(11, {})});
  const Rows packed = PackRows(LimitLength(rows, 10, OverLength::kTruncate), 10);
  ASSERT_EQ(packed->size(), 2);  // the long row with an image is dropped, the one without is cut
  const Row row = packed->Read(packed->Read(0).images.empty() ? 1 : 0);
  ASSERT_EQ(row.images.size(), 2u);
  EXPECT_EQ(row.images[0], a);
  EXPECT_EQ(row.images[1].first, 6);
  EXPECT_EQ(row.grids, (std::vector<ImageGrid>{a.grid, b.grid}));
}

TEST_F(ImageData, PatchesAreReadAheadAndKeptWithinABound) {
  const auto reader = Reader();
  std::vector<Row> list;
  for (int i = 0; i < 6; ++i)
    list.push_back(RowWith(4, {Stored(*reader, Concat(i, ".png")), Stored(*reader, "same.png")}));
  list.push_back(RowWith(4, {}));
  const auto rows = std::make_shared<RowList>(list);
  Prefetcher ahead(ImageRows(rows, reader, size_t{1} << 30));
  ahead.Start({0, 1, 2, 3, 4, 5, 6});
  ahead.Start({});
  const int64_t floats = list[0].grids[0].patches() * reader->patch_floats();
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(std::ssize(*ahead.Read(i).patches), 2 * floats);
  EXPECT_EQ(ahead.Read(6).patches, nullptr);
  const size_t one = reader->Load(list[0].images[0].source, list[0].images[0].grid).rgb.size();
  ImageCache cache(reader, 3 * one + 2000);  // three, with their names
  for (const Row& row : list) {
    for (const RowImage& image : row.images) cache.Get(image);
  }
  EXPECT_EQ(cache.decoded(), 7);  // same.png was used again before it was dropped
  EXPECT_LE(cache.bytes(), 3 * one + 2000);
  cache.Get(list[0].images[0]);
  EXPECT_EQ(cache.decoded(), 8);
}

TEST_F(ImageData, AFileThatWasReplacedIsReadAgain) {
  const auto reader = Reader();
  const RowImage image = Stored(*reader, "a.png");
  ImageCache cache(reader, size_t{1} << 20);
  const auto first = cache.Get(image);
  EXPECT_EQ(cache.Get(image), first);
  RowImage other = image;
  other.grid.height += 2;
  EXPECT_NE(RefusalOf([&] { cache.Get(other); }).find("a.png: its grid is"), std::string::npos);
  Write("a.png", "no image at all");
  EXPECT_NE(RefusalOf([&] { cache.Get(image); }).find("a.png"), std::string::npos);
}

TEST_F(ImageData, BesideTextAreRefused) {
  EXPECT_NE(RefusalOf([] {
              ReadSample(ParseJson(R"({"text": "a <image>", "images": ["x.png"]})", "it"), {.images = true});
            }).find("beside text"),
            std::string::npos);
}

TEST_F(ImageData, OfRowsOfTokensAreFound) {
  const auto reader = Reader();
  const RowImage image = Stored(*reader, "a.png");
  const auto tokens = static_cast<size_t>(reader->TokensOf(image.grid));
  std::vector<int32_t> ids = {1, 2};
  ids.insert(ids.end(), 2 * tokens, 7);  // two images beside each other
  ids.push_back(3);
  const std::vector<RowImage> found = FindImages({image.source, image.source}, *reader, ids);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].first, 2);
  EXPECT_EQ(found[1].first, 2 + static_cast<int64_t>(tokens));
  EXPECT_NE(RefusalOf([&] { FindImages({image.source}, *reader, ids); }).find("after those of its 1 images"),
            std::string::npos);
  ids.erase(ids.begin() + 2);
  EXPECT_NE(RefusalOf([&] { FindImages({image.source, image.source}, *reader, ids); }).find("image 2 "),
            std::string::npos);
}

TEST_F(ImageData, AFileThatChangedIsNamed) {
  const auto reader = Reader();
  RowImage image = Stored(*reader, "a.png");
  image.grid.height += 2;
  EXPECT_NE(RefusalOf([&] { reader->Load(image.source, image.grid); }).find("a.png: its grid is"), std::string::npos);
  EXPECT_NE(RefusalOf([&] { reader->GridOf((folder_ / "none.png").string()); }).find("none.png"), std::string::npos);
  Write("config.json", R"({"vision_config": {"patch_size": 16}, "image_token_id": 7})");
  EXPECT_NE(RefusalOf([&] { ImageReader({.model = folder_.string()}); }).find("vision_config.patch_size is 16"),
            std::string::npos);
  EXPECT_TRUE(SeesImages(folder_.string()));
  EXPECT_FALSE(SeesImages((folder_ / "elsewhere").string()));
}

}  // namespace
}  // namespace trireme
