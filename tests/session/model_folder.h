// ModelFolder: a directory with a model's config.json that all ranks of a test see.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/core/comm/spmd.h"

namespace trireme {

// Of this test run; removed at the end by the rank that created it. Collective.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& config)
      : folder_(testing::TempDir() + "trireme_model_" + TestJob().GatherStrings(std::to_string(getpid()))[0]) {
    if (TestJob().rank() == 0) {
      std::filesystem::create_directories(folder_ / "model");
      std::ofstream(folder_ / "model/config.json") << config;
    }
    TestJob().Barrier();
  }
  ~ModelFolder() {
    if (std::uncaught_exceptions() > 0) return;  // the other ranks may not be here
    TestJob().Barrier();
    if (TestJob().rank() == 0) std::filesystem::remove_all(folder_);
  }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  std::string model() const { return (folder_ / "model").string(); }
  std::filesystem::path output() const { return folder_; }

 private:
  const std::filesystem::path folder_;
};

}  // namespace trireme
