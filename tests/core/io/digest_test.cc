// What names in a cache must tell apart.
#include "core/io/digest.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

TEST(Digest, TellsContentsApart) {
  EXPECT_NE(Digest().Add("ab").Add("c").Hex(), Digest().Add("a").Add("bc").Hex());
  EXPECT_NE(Digest().Add("").Hex(), Digest().Add(std::string(1, '\0')).Hex());
  EXPECT_EQ(Digest().Add("abc").Hex(), Digest().Add("abc").Hex());
  EXPECT_EQ(Digest().Add("abc").Hex().size(), 32u);
}

// Names of caches on disks: another hash would have them all made again.
TEST(Digest, StaysWhatItIs) {
  EXPECT_EQ(Digest().Add("").Hex(), "2c0a8a99dc147d5445c3b49d035665b2");
  EXPECT_EQ(Digest().Add("trireme").Hex(), "a0020cfae2b600801ecf9eb200dce0a2");
}

TEST(Digest, EveryBitCounts) {
  std::string bytes(1000, 'a');
  std::set<std::string> found{Digest().Add(bytes).Hex()};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= 1;
    found.insert(Digest().Add(bytes).Hex());
    bytes[i] ^= 1;
  }
  EXPECT_EQ(found.size(), 1001u);
}

}  // namespace
}  // namespace trireme
