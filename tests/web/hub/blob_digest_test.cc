// Digests of files, against those that `sha256sum` and `git hash-object` print.
#include "web/hub/blob_digest.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace trireme {
namespace {

TEST(BlobDigestTest, AsOtherProgramsPrintThem) {
  const auto file = std::filesystem::temp_directory_path() / ("trireme-blob-" + std::to_string(getpid()));
  std::ofstream(file) << "hello\n";
  EXPECT_EQ(BlobDigest(file, 64), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
  EXPECT_EQ(BlobDigest(file, 40), "ce013625030ba8dba906f756967f9e9ca394464a");
  std::ofstream(file, std::ios::trunc).close();
  EXPECT_EQ(BlobDigest(file, 64), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(BlobDigest(file, 40), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace trireme
