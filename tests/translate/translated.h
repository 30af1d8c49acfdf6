// Translates within a test: a command's words, or a file's text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/config/load.h"
#include "translate/translate.h"

namespace trireme {

inline FoundRun RunOfFile(const std::string& name, const std::string& text, const InputOptions& options = {}) {
  const auto path = std::filesystem::path(testing::TempDir()) / name;
  std::ofstream(path) << text;
  const FoundRun run = FindRun({path.string()}, options);
  std::filesystem::remove(path);
  return run;
}

inline Translation TranslatedFile(const std::string& name, const std::string& text, int world = 0) {
  return Translate(RunOfFile(name, text), {.world = world, .directory = "", .model = ""});
}

// The words of one command, with blanks between them.
inline Translation TranslatedCommand(const std::string& line, int world = 0) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return Translate(FindRun(words, {}), {.world = world, .directory = "", .model = ""});
}

inline std::string AllOf(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// The configuration that trireme train would read; fails the test if anything was refused.
inline Config ConfigOf(const Translation& result) {
  EXPECT_EQ(AllOf(result.refused()), "");
  return ParseConfig(result.Yaml("a test"), "run.yaml");
}

}  // namespace trireme
