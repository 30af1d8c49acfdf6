// The bytes of an event file. How TensorBoard reads them is tested in tests/parity/events_test.py.
#include "train/report/event_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace trireme {
namespace {

// The number after a tag: field 2, four bytes. Empty if it was omitted.
std::optional<float> NumberOf(const std::string& bytes, const std::string& tag) {
  const size_t place = bytes.find(tag) + tag.size();
  if (place + 5 > bytes.size() || bytes[place] != 0x15) return std::nullopt;
  float number = 0;
  std::memcpy(&number, bytes.data() + place + 1, sizeof(number));
  return number;
}

TEST(EventFile, WritesNumbersThatAreZero) {
  const std::filesystem::path folder = testing::TempDir() + "trireme_events_" + std::to_string(getpid());
  EventFile(folder, 1).Write({.step = 1, .loss = 2.5, .learning_rate = 0});
  std::ifstream file(std::filesystem::directory_iterator(folder)->path(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(NumberOf(bytes, "train/loss"), 2.5f);
  EXPECT_EQ(NumberOf(bytes, "train/learning_rate"), 0.0f);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace trireme
