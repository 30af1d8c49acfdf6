// Decoders against the pixels that transformers loads, and what they do with files that are truncated, broken or too
// large: an error that names the file, and under the address sanitizer nothing worse.
#include "images/decode.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/random.h"
#include "images/exif.h"
#include "images/image_source.h"
#include "tests/images/small_images.h"

namespace trireme::images {
namespace {

std::vector<uint8_t> FileOf(const SmallImage& small) { return FromBase64(small.base64, small.name); }

template <typename Work>
std::string ErrorOf(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(Decode, PixelsAreWhatThePeerLoads) {
  for (const SmallImage& small : kSmallImages) {
    const std::vector<uint8_t> file = FileOf(small);
    const ImageHeader header = ReadImageHeader(file, small.name);
    EXPECT_EQ(header.upright_width(), small.width) << small.name;
    EXPECT_EQ(header.upright_height(), small.height) << small.name;
    const Image image = DecodeImage(file, small.name);
    EXPECT_EQ(image.width, small.width) << small.name;
    EXPECT_EQ(image.height, small.height) << small.name;
    EXPECT_EQ(DigestOf(image.rgb), small.digest) << small.name;
  }
}

TEST(Decode, RefusesMorePixelsThanAllowedByTheHeaderAlone) {
  for (const SmallImage& small : kSmallImages) {
    const std::vector<uint8_t> file = FileOf(small);
    EXPECT_NO_THROW(DecodeImage(file, small.name, 63));
    const std::string error = ErrorOf([&] { ReadImageHeader(file, "a/" + small.name, 62); });
    EXPECT_NE(error.find("a/" + small.name), std::string::npos) << error;
    EXPECT_NE(error.find("more than 62"), std::string::npos) << error;
  }
}

TEST(Decode, EveryTruncationIsNamed) {
  for (const SmallImage& small : kSmallImages) {
    const std::vector<uint8_t> file = FileOf(small);
    for (size_t length = 0; length < file.size(); ++length) {
      const std::string error = ErrorOf([&] { DecodeImage(Bytes(file).first(length), "it", 4096); });
      // The last bytes of some formats end the file, not the image.
      if (length >= file.size() / 2) continue;
      EXPECT_NE(error.find("image it"), std::string::npos) << small.name << " " << length;
    }
  }
}

TEST(Decode, MutatedFilesAreReadOrRefused) {
  uint64_t counter = 0;
  const RandomStream random(7, "mutations");
  const auto draw = [&](size_t below) { return static_cast<size_t>(random.Below(below, ++counter)); };
  int read = 0, refused = 0;
  for (const SmallImage& small : kSmallImages) {
    const std::vector<uint8_t> file = FileOf(small);
    for (int round = 0; round < 1500; ++round) {
      std::vector<uint8_t> mutated = file;
      for (size_t i = 0; i <= draw(4); ++i) mutated[draw(mutated.size())] = static_cast<uint8_t>(draw(256));
      if (draw(4) == 0) mutated.resize(draw(mutated.size()) + 1);
      if (draw(4) == 0)
        mutated.insert(mutated.begin() + static_cast<ptrdiff_t>(draw(mutated.size())), 1 + draw(9), 0xff);
      ++(ErrorOf([&] { DecodeImage(mutated, "it", 65536); }).empty() ? read : refused);
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 100);
}

// What a decoder would skip may hide another size from the limit of pixels.
TEST(Decode, RefusesJpegsThatReadersUnderstandDifferently) {
  std::vector<uint8_t> file = FileOf(kSmallImages[1]);
  const std::vector<uint8_t> no_marker = {0xff, 0x00, 0x00, 0x04, 0x01, 0x02};
  file.insert(file.begin() + 2, no_marker.begin(), no_marker.end());
  EXPECT_NE(ErrorOf([&] { DecodeImage(file, "it", 4096); }).find("no marker"), std::string::npos);
}

TEST(Decode, RefusesJpegsOfVeryManyScans) {
  std::vector<uint8_t> file = FileOf(kSmallImages[1]);
  const std::vector<uint8_t> mark = {0xff, 0xda};
  const auto scan = std::find_end(file.begin(), file.end(), mark.begin(), mark.end());
  const std::vector<uint8_t> last(scan, file.end() - 2), end(file.end() - 2, file.end());
  file.resize(file.size() - 2);
  for (int i = 0; i < 600; ++i) file.insert(file.end(), last.begin(), last.end());
  file.insert(file.end(), end.begin(), end.end());
  EXPECT_NE(ErrorOf([&] { DecodeImage(file, "it", 4096); }).find("more than 500 scans"), std::string::npos);
}

TEST(Decode, FormatIsToldByContent) {
  EXPECT_NE(ErrorOf([] { DecodeImage({}, "nothing"); }).find("nothing: the file is empty"), std::string::npos);
  const std::vector<uint8_t> text = {'t', 'e', 'x', 't'};
  EXPECT_NE(ErrorOf([&] { DecodeImage(text, "a.jpg"); }).find("none of JPEG, PNG, WebP, GIF, BMP"), std::string::npos);
}

void PutNumbers(std::vector<uint8_t>& bytes, int size, std::initializer_list<int64_t> numbers) {
  for (const int64_t number : numbers) {
    for (int i = 0; i < size; ++i) bytes.push_back(static_cast<uint8_t>(number >> 8 * i));
  }
}

// 1 x 2 pixels of 5 bits a colour: the brightest red above the brightest blue. A negative height: from above.
TEST(Decode, BitmapsFromAboveAndOfFiveBits) {
  for (const bool from_above : {true, false}) {
    std::vector<uint8_t> file = {'B', 'M'};
    PutNumbers(file, 4, {62, 0, 54, 40, 1, from_above ? -2 : 2});
    PutNumbers(file, 2, {1, 16});
    PutNumbers(file, 4, {0, 8, 0, 0, 0, 0});
    PutNumbers(file, 4, {31 << 10, 31});
    const Image image = DecodeImage(file, "it");
    const std::vector<uint8_t> red = {255, 0, 0}, blue = {0, 0, 255};
    const uint8_t *upper = image.row(0), *lower = image.row(1);
    EXPECT_EQ(std::vector<uint8_t>(upper, upper + 3), from_above ? red : blue);
    EXPECT_EQ(std::vector<uint8_t>(lower, lower + 3), from_above ? blue : red);
  }
}

TEST(Decode, AFramesOwnColoursCount) {
  std::vector<uint8_t> file = {'G', 'I', 'F', '8', '9', 'a', 1, 0, 1, 0, 0x80, 0, 0};
  file.insert(file.end(), 6, 0);                                      // two colours of all frames: black
  PutNumbers(file, 1, {',', 0, 0, 0, 0, 1, 0, 1, 0, 0x80});           // one pixel, two colours of its own
  PutNumbers(file, 1, {1, 2, 3, 10, 20, 30, 2, 2, 0x4c, 1, 0, ';'});  // codes of 3 bits: begin, colour 1, end
  EXPECT_EQ(DecodeImage(file, "it").rgb, (std::vector<uint8_t>{10, 20, 30}));
}

// 1 x 9 pixels, each of its row's colour; the file has rows 0, 8, 4, 2, 6, 1, 3, 5, 7.
TEST(Decode, InterlacedRowsGoToTheirPlaces) {
  std::vector<uint8_t> file = {'G', 'I', 'F', '8', '9', 'a', 1, 0, 9, 0, 0x82, 0, 0};
  for (int64_t colour = 0; colour < 8; ++colour) PutNumbers(file, 1, {colour, colour, colour});
  PutNumbers(file, 1, {',', 0, 0, 0, 0, 1, 0, 9, 0, 0x40});
  PutNumbers(file, 1, {3, 6, 0x08, 0x40, 0x62, 0x81, 0x53, 0x97, 0, ';'});  // 4 bits each: 8 begins, 9 ends
  const Image image = DecodeImage(file, "it");
  for (int64_t y = 0; y < 9; ++y) EXPECT_EQ(image.row(y)[0], y % 8) << y;
}

TEST(Orientation, IsAppliedAsItsNumberSays) {
  Image stored(2, 3);  // a b / c d / e f
  for (size_t i = 0; i < 6; ++i) stored.rgb[3 * i] = static_cast<uint8_t>('a' + i);
  const std::vector<std::string> expected = {"ab/cd/ef/", "ba/dc/fe/", "fe/dc/ba/", "ef/cd/ab/",
                                             "ace/bdf/",  "eca/fdb/",  "fdb/eca/",  "bdf/ace/"};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image upright = Upright(stored, orientation);
    std::string text;
    for (int64_t y = 0; y < upright.height; ++y) {
      for (int64_t x = 0; x < upright.width; ++x) text += static_cast<char>(upright.row(y)[3 * x]);
      text += '/';
    }
    EXPECT_EQ(text, expected[static_cast<size_t>(orientation - 1)]) << orientation;
  }
}

TEST(ImageSource, Base64HasTwoAlphabets) {
  EXPECT_EQ(FromBase64("+/+/", "it"), (std::vector<uint8_t>{0xfb, 0xff, 0xbf}));
  EXPECT_EQ(FromBase64("-_-_", "it"), FromBase64("+/+/", "it"));
}

TEST(ImageSource, OfDataUrlsAndPaths) {
  const SmallImage& small = kSmallImages[0];
  const ImageSource source("data:image/jpeg;base64," + small.base64, ".");
  EXPECT_EQ(DigestOf(DecodeImage(source.bytes(), source.name()).rgb), small.digest);
  EXPECT_LT(source.name().size(), 60u);
  EXPECT_NE(ErrorOf([] { ImageSource("missing.png", "/nowhere"); }).find("/nowhere/missing.png"), std::string::npos);
  EXPECT_NE(ErrorOf([] { ImageSource("https://a.b/c.png", "."); }).find("not downloaded"), std::string::npos);
  EXPECT_NE(ErrorOf([] { ImageSource("data:image/png;base64,a*", "."); }).find("base64"), std::string::npos);
  EXPECT_NE(ErrorOf([] { ImageSource("", "."); }).find("without a name"), std::string::npos);
}

}  // namespace
}  // namespace trireme::images
