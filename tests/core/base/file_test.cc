// Opening files: what is not a regular file is refused by name and at once.
#include "core/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "core/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
 protected:
  File() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~File() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // Without the directory name.
  template <typename Work>
  std::string RefusalOf(const Work& work) const {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      const std::string what = error.what();
      return what.starts_with(folder_) ? what.substr(folder_.size() + 1) : what;
    }
    return "accepted";
  }

  std::string folder_ = testing::TempDir() + "trireme-file-XXXXXX";
};

TEST_F(File, ReadsRegularFilesWhole) {
  const std::string text(200001, 'x');
  std::ofstream(Path("a")) << text;
  fs::create_symlink("a", Path("link"));
  EXPECT_EQ(ReadTextFile(Path("link")), text);
  EXPECT_TRUE(PathExists(Path("link")));
  EXPECT_FALSE(PathExists(Path("b")));
  EXPECT_FALSE(PathExists(Path("a/b")));
  EXPECT_TRUE(IsDirectory(folder_));
  EXPECT_FALSE(IsDirectory(Path("a")));
}

TEST_F(File, RefusesWhatWouldBlockOrNeverEnd) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(RefusalOf([&] { ReadTextFile(Path("pipe")); }), "pipe: is a FIFO; wanted a regular file");
  EXPECT_EQ(RefusalOf([&] { ReadTextFile("/dev/zero"); }), "/dev/zero: is a device; wanted a regular file");
  fs::create_directory(Path("folder"));
  EXPECT_EQ(RefusalOf([&] { ReadTextFile(Path("folder")); }), "folder: is a directory; wanted a regular file");
}

TEST_F(File, RefusesBrokenPathsByName) {
  fs::create_symlink("loop", Path("loop"));
  const std::string loop = "loop: cannot be read: Too many levels of symbolic links";
  EXPECT_EQ(RefusalOf([&] { ReadTextFile(Path("loop")); }), loop);
  EXPECT_EQ(RefusalOf([&] { PathExists(Path("loop")); }), loop);
  EXPECT_EQ(RefusalOf([&] { IsDirectory(Path("loop")); }), loop);
  const std::string name(300, 'n');
  EXPECT_EQ(RefusalOf([&] { PathExists(Path(name)); }), name + ": cannot be read: File name too long");
}

TEST(Printable, EscapesTerminalControlSequences) {
  EXPECT_EQ(Printable("model.layers.0"), "model.layers.0");
  EXPECT_EQ(Printable("größe 層"), "größe 層");
  EXPECT_EQ(Printable("\x1b[2J\n\r\x7f"), "\\x1b[2J\\n\\x0d\\x7f");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\x9b31m");
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(Printable("r\xff\xfe: \xc3(\xe5\xb1"), "r\\xff\\xfe: \\xc3(\\xe5\\xb1");
  EXPECT_EQ(Printable("\xed\xa0\x80 größe \xe5"),
            "\\xed\\xa0\\x80 größe \\xe5");  // half of a pair, then a character cut off
}

}  // namespace
}  // namespace trireme
