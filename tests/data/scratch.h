// For the data tests: a directory removed with the test, files in it, and the message of an error.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/error.h"

namespace trireme {

class ScratchTest : public testing::Test {
 protected:
  ScratchTest() {
    std::string name = (std::filesystem::temp_directory_path() / "trireme-data-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~ScratchTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  // The message of an input error, without the directory name; "accepted" if there is none.
  template <typename Work>
  std::string RefusalOf(const Work& work) const {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      std::string what = error.what();
      for (size_t at; (at = what.find(folder_.string() + "/")) != std::string::npos;) {
        what.erase(at, folder_.string().size() + 1);
      }
      return what;
    }
    return "accepted";
  }

  std::filesystem::path folder_;
};

}  // namespace trireme
