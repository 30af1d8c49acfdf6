// Two ranks save a checkpoint while one or both of them die, or get an error, at each call that changes a
// file. After each case the newest complete checkpoint is intact, it is the old or the new one, and the next
// save succeeds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "checkpoint/run_checkpoints.h"
#include "checkpoint/store_reader.h"
#include "checkpoint/store_writer.h"
#include "core/base/file.h"
#include "tests/checkpoint/scratch.h"

extern char** environ;

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 2, kKeep = 2;

struct Fault {
  int rank = -1;     // -1: both
  int at = 0;        // which call; 0: none
  std::string with;  // "kill" or an errno number
};

struct Ended {
  bool killed = false;
  int status = 0;
};

class Faults : public testing::Test {
 protected:
  pid_t Start(int64_t step, int rank, const Fault& fault) {
    std::vector<std::string> words = {SAVE_PROGRAM,         output().string(),      std::to_string(step),
                                      std::to_string(rank), std::to_string(kRanks), std::to_string(kKeep)};
    std::vector<std::string> settings = {"FAULT_UNDER=checkpoint-", "FAULT_COUNT=" + CountFile(rank).string(),
                                         std::string("LD_PRELOAD=") + FAULT_SHIM,
                                         "FAULT_LOG=" + LogFile(rank).string()};
    if (fault.rank < 0 || fault.rank == rank) {
      settings.push_back("FAULT_AT=" + std::to_string(fault.at));
      settings.push_back("FAULT_WITH=" + fault.with);
    }
    for (char** one = environ; *one != nullptr; ++one) {
      const std::string_view variable = *one;
      if (variable.starts_with("LD_LIBRARY_PATH=") || variable.starts_with("TRIREME_MUTANT"))
        settings.emplace_back(variable);
    }
    const auto pointers = [](std::vector<std::string>& list) {
      std::vector<char*> result;
      for (std::string& text : list) result.push_back(text.data());
      result.push_back(nullptr);
      return result;
    };
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, ErrorFile(rank).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    pid_t pid = -1;
    EXPECT_EQ(posix_spawn(&pid, SAVE_PROGRAM, &actions, nullptr, pointers(words).data(), pointers(settings).data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }

  // As mpirun does: if one fails, all end.
  std::map<int, Ended> Save(int64_t step, const Fault& fault) {
    BeginAside(CheckpointPath(output(), step));
    std::map<pid_t, int> running;
    for (int rank = 0; rank < kRanks; ++rank) running[Start(step, rank, fault)] = rank;
    std::map<int, Ended> ended;
    for (int left = kRanks; left > 0; --left) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, 0);
      ended[running.at(pid)] = {WIFSIGNALED(status), WIFEXITED(status) ? WEXITSTATUS(status) : -1};
      running.erase(pid);
      if (status == 0) continue;
      for (const auto& [other, rank] : running) kill(other, SIGKILL);
    }
    return ended;
  }

  // The step of the newest complete checkpoint, with every number checked against the step.
  int64_t NewestStep() {
    const auto newest = NewestComplete(output());
    if (!newest) return -1;
    StoreReader reader(newest->path);
    reader.Verify();
    for (const char* key : {"weights/a", "exp_avg/a"}) {
      std::vector<float> values(kRanks * 20'000);
      reader.ReadWhole(reader.Find(key), values.data());
      for (const float value : values) EXPECT_EQ(value, static_cast<float>(newest->step));
    }
    return newest->step;
  }

  int CallsOf(int rank) {
    int calls = 0;
    std::ifstream(CountFile(rank)) >> calls;
    return calls;
  }

  // The state before each case: two checkpoints, so that a third removes the first.
  void Prepare() {
    for (const auto& entry : fs::directory_iterator(output())) fs::remove_all(entry.path());
    for (const int64_t step : {1, 2}) {
      for (const auto& [rank, end] : Save(step, {})) ASSERT_EQ(end.status, 0) << ReadTextFile(ErrorFile(rank));
    }
    ASSERT_EQ(NewestStep(), 2);
  }

  void ExpectOldOrNew(const std::string& what) {
    const int64_t newest = NewestStep();
    EXPECT_TRUE(newest == 2 || newest == 3) << what << ": " << newest;
    if (newest == 2) {
      for (const auto& [rank, end] : Save(3, {})) EXPECT_EQ(end.status, 0) << what << ReadTextFile(ErrorFile(rank));
    }
    for (const auto& [rank, end] : Save(4, {})) EXPECT_EQ(end.status, 0) << what << ReadTextFile(ErrorFile(rank));
    EXPECT_EQ(NewestStep(), 4) << what;
  }

  fs::path output() const { return scratch_.path() / "run"; }
  fs::path CountFile(int rank) const { return scratch_.path() / ("count-" + std::to_string(rank)); }
  fs::path LogFile(int rank) const { return scratch_.path() / ("log-" + std::to_string(rank)); }
  fs::path ErrorFile(int rank) const { return scratch_.path() / ("stderr-" + std::to_string(rank)); }

  void SetUp() override {
    fs::create_directories(output());
    Prepare();
    for (const auto& [rank, end] : Save(3, {})) ASSERT_EQ(end.status, 0);
    for (int rank = 0; rank < kRanks; ++rank) calls_.push_back(CallsOf(rank));
    ASSERT_GE(calls_[0], 15);
    ASSERT_GE(calls_[1], 8);
    std::cout << "calls that change a file: " << calls_[0] << " of rank 0, " << calls_[1] << " of rank 1\n";
  }

  Scratch scratch_{fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path()};
  std::vector<int> calls_;
};

// A machine crash, which killing a process does not imitate, preserves what was synced: a file's content must
// be on disk before its name, and a checkpoint must lose its name before it loses a file.
TEST_F(Faults, ContentIsSyncedBeforeItsNameAndNamesGoFirst) {
  Prepare();
  for (int rank = 0; rank < kRanks; ++rank) fs::remove(LogFile(rank));
  for (const auto& [rank, end] : Save(3, {})) ASSERT_EQ(end.status, 0);
  int renamed = 0, removed = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::ifstream log(LogFile(rank));
    std::map<std::string, bool> dirty;  // files with unsynced content
    std::string line, call, path, to;
    while (std::getline(log, line)) {
      std::istringstream words(line);
      words >> call >> path >> to;
      if (call == "write" || call == "create") dirty[path] = true;
      if (call == "fsync") dirty[path] = false;
      if (call == "unlink") {
        ++removed;
        EXPECT_NE(path.find(".going"), std::string::npos) << line << ": the checkpoint still had its name";
      }
      if (call != "rename") continue;
      ++renamed;
      for (const auto& [file, unsynced] : dirty) {
        EXPECT_FALSE(unsynced && file.starts_with(path)) << line << " before " << file << " was synced";
      }
    }
  }
  EXPECT_GE(renamed, 3);
  EXPECT_GE(removed, 2);
}

TEST_F(Faults, KilledAtEveryCall) {
  int cases = 0;
  for (int rank = -1; rank < kRanks; ++rank) {
    const int calls = rank < 0 ? std::max(calls_[0], calls_[1]) : calls_[static_cast<size_t>(rank)];
    for (int at = 1; at <= calls; ++at, ++cases) {
      const std::string what = Concat("rank ", rank, " killed at call ", at, " of ", calls);
      Prepare();
      const auto ended = Save(3, {rank, at, "kill"});
      bool killed = false;
      for (const auto& [unused, end] : ended) killed = killed || end.killed;
      EXPECT_TRUE(killed) << what;
      ExpectOldOrNew(what);
    }
  }
  std::cout << cases << " kills\n";
}

TEST_F(Faults, AnErrorAtEveryCallNamesTheFileAndKeepsTheOldCheckpoint) {
  const std::map<int, std::string> kErrors = {{ENOSPC, "No space left"}, {EACCES, "Permission denied"}};
  int cases = 0;
  for (const auto& [number, text] : kErrors) {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int at = 1; at <= calls_[static_cast<size_t>(rank)]; ++at, ++cases) {
        const std::string what = Concat("rank ", rank, " gets ", text, " at call ", at);
        Prepare();
        const auto ended = Save(3, {rank, at, std::to_string(number)});
        const std::string said = ReadTextFile(ErrorFile(rank));
        EXPECT_EQ(ended.at(rank).status, 1) << what << ": " << said;
        EXPECT_NE(said.find(output().string()), std::string::npos) << what << ": " << said;
        ExpectOldOrNew(what);
      }
    }
  }
  std::cout << cases << " errors\n";
}

}  // namespace
}  // namespace trireme
