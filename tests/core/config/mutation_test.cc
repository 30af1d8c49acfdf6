// Property: whatever a file contains, parsing it returns a Config or an input error with the file's name,
// nothing else. Texts are the resolved defaults with random bytes changed, removed and duplicated.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "core/base/error.h"
#include "core/config/load.h"
#include "core/config/print.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

std::string Mutated(std::string text, std::mt19937_64& random) {
  static const std::string signs = ":{}[],&*!|>'\"%@`#-?~ \n\t\\<=.0123456789aé";
  for (uint64_t changes = 1 + random() % 8; changes > 0 && !text.empty(); --changes) {
    const size_t at = random() % text.size();
    const size_t length = random() % 20;
    switch (random() % 3) {
      case 0:
        text[at] = signs[random() % signs.size()];
        break;
      case 1:
        text.erase(at, length);
        break;
      default:
        text.insert(random() % text.size(), text.substr(at, length));
    }
  }
  return text;
}

TEST(MutationTest, GivesAConfigOrAnInputError) {
  const std::string good = ToYaml(DefaultConfig());
  std::mt19937_64 random(1);
  int read = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = Mutated(good, random);
    try {
      ParseConfig(text, "run.yaml");
      ++read;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kInput);
      ASSERT_EQ(std::string(error.what()).rfind("run.yaml:", 0), 0u) << error.what();
      ++refused;
    } catch (const std::exception& error) {
      FAIL() << error.what() << " from\n" << text;
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace trireme
