#include "net/secret.h"

#include <gtest/gtest.h>

#include <set>

namespace net {
namespace {

TEST(Proof, PublishedValues) {  // RFC 4231, cases 1, 2 and 6
  EXPECT_EQ(Hex(Proof(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(Proof("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Hex(Proof(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Proof, IsComparedWhole) {
  EXPECT_TRUE(SameProof("abc", "abc"));
  EXPECT_FALSE(SameProof("abc", "abd"));
  EXPECT_FALSE(SameProof("abc", "ab"));
  EXPECT_FALSE(SameProof("", "a"));
}

TEST(Secret, IsNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(NewSecret());
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_EQ(seen.begin()->size(), kSecretBytes);
}

}  // namespace
}  // namespace net
