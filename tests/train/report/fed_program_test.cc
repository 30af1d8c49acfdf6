// Programs that are fed with lines: all lines arrive in order, and one that dies, hangs or is missing holds nothing up.
#include "train/report/fed_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/file.h"

namespace trireme {
namespace {

std::string Scratch(const std::string& name) {
  return testing::TempDir() + "trireme_fed_" + name + "_" + std::to_string(getpid());
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(FedProgram, LinesArriveInOrder) {
  const std::string path = Scratch("lines");
  FedProgram program({"sh", "-c", "sleep 0.2; cat > " + path}, "the reporter x");
  std::string wanted;
  for (int i = 0; i < 20000; ++i) {  // more than a socket holds
    const std::string line = "line " + std::to_string(i) + std::string(50, '.');
    program.Send(line);
    wanted += line + "\n";
  }
  program.Finish(30);
  EXPECT_EQ(ReadTextFile(path), wanted);
  std::filesystem::remove(path);
}

TEST(FedProgram, OneThatDiesIsNamedOnce) {
  testing::internal::CaptureStderr();
  FedProgram program({"sh", "-c", "read line; exit 3"}, "the reporter x");
  for (int i = 0; i < 200; ++i) {
    program.Send("line");
    usleep(5000);
  }
  program.Finish(30);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(Count(said, "the reporter x ended with status 3"), 1) << said;
  EXPECT_EQ(Count(said, "the reporter x"), 1) << said;
}

TEST(FedProgram, OneThatFailsAtItsEndIsNamed) {
  testing::internal::CaptureStderr();
  FedProgram program({"sh", "-c", "cat >/dev/null; exit 4"}, "the reporter x");
  program.Send("line");
  program.Finish(30);
  EXPECT_EQ(Count(testing::internal::GetCapturedStderr(), "the reporter x ended with status 4"), 1);
}

TEST(FedProgram, OneThatIsMissingIsNamed) {
  testing::internal::CaptureStderr();
  FedProgram program({"/nonexistent/program"}, "the reporter x");
  for (int i = 0; i < 100; ++i) {
    program.Send("line");
    usleep(5000);
  }
  program.Finish(30);
  EXPECT_EQ(Count(testing::internal::GetCapturedStderr(), "the reporter x could not be run"), 1);
}

// If sending waited for it, it would have ended before its end is waited for.
TEST(FedProgram, OneThatDoesNotReadHoldsNothingUp) {
  testing::internal::CaptureStderr();
  FedProgram program({"sh", "-c", "exec sleep 3"}, "the reporter x");
  for (int i = 0; i < 1000; ++i) program.Send(std::string(1 << 12, '.'));
  program.Finish(0.5);
  EXPECT_EQ(Count(testing::internal::GetCapturedStderr(), "the reporter x has not finished after 0.5 s"), 1);
}

TEST(FedProgram, OneThatFallsTooFarBehindIsGivenUp) {
  testing::internal::CaptureStderr();
  FedProgram program({"sh", "-c", "exec sleep 3"}, "the reporter x");
  for (int i = 0; i < 20; ++i) program.Send(std::string(1 << 20, '.'));
  program.Finish(0.1);
  EXPECT_EQ(Count(testing::internal::GetCapturedStderr(), "the reporter x does not read what it is sent"), 1);
}

}  // namespace
}  // namespace trireme
