// What ModelScope's server answers, taken apart. Whole conversations are in tests/parity/modelscope_test.py.
#include "web/hub/modelscope_api.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace trireme {
namespace {

const std::string kDigest(64, 'a');

std::string Entry(const std::string& path, const std::string& digest = kDigest) {
  return R"({"Path": ")" + path + R"(", "Type": "blob", "Size": 7, "Sha256": ")" + digest + "\"}";
}

std::string Refused(const std::string& json) {
  try {
    ParseModelScopePage(json, "server");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(ModelScopeApiTest, ListsFiles) {
  const ModelScopePage page = ParseModelScopePage(
      R"({"Success": true, "TotalCount": 9, "Data": {"Files": [{"Path": "data", "Type": "tree"}, )" + Entry("data/a") +
          "]}}",
      "server");
  ASSERT_EQ(page.files.size(), 1U);
  EXPECT_EQ(page.files[0].name, "data/a");
  EXPECT_EQ(page.files[0].size, 7);
  EXPECT_EQ(page.files[0].digest, kDigest);
  EXPECT_EQ(page.entries, 2);
  EXPECT_EQ(page.total, 9);
  EXPECT_EQ(ParseModelScopePage(R"({"Data": {"Files": null}})", "server").entries, 0);
}

TEST(ModelScopeApiTest, RefusesOtherAnswers) {
  for (const std::string& json :
       {std::string("<html>"), std::string("{}"), std::string(R"({"Data": 1})"),
        R"({"Data": {"Files": [)" + Entry("a", "abc") + "]}}", R"({"Data": {"Files": [)" + Entry("") + "]}}"}) {
    EXPECT_NE(Refused(json).find("is MODELSCOPE_ENDPOINT a hub?"), std::string::npos) << json;
  }
  EXPECT_EQ(Refused(R"({"Code": 10010205001, "Success": false, "Message": "gone", "Data": null})"),
            "server answered: gone; check the name, or set MODELSCOPE_API_TOKEN");
}

}  // namespace
}  // namespace trireme
