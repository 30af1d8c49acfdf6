// A program that saves one checkpoint as one of several ranks does: `save_program OUTPUT STEP RANK RANKS
// KEEP`. Rank 0 also completes it and removes old ones. Tests make it fail or die at every call that changes
// a file.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "checkpoint/run_checkpoints.h"
#include "checkpoint/store_writer.h"

int main(int count, char** words) {
  using namespace trireme;
  if (count != 6) return 3;
  const std::filesystem::path output = words[1];
  const int64_t step = std::atoll(words[2]);
  const int rank = std::atoi(words[3]), ranks = std::atoi(words[4]), keep = std::atoi(words[5]);
  try {
    const std::filesystem::path directory = CheckpointPath(output, step);
    const std::vector<float> values(20'000, static_cast<float>(step));
    RankFileWriter file(directory, rank);
    for (const char* key : {"weights/a", "exp_avg/a"}) {
      file.Write({.key = key,
                  .dtype = DType::kFp32,
                  .shape = {20 * ranks, 1000},
                  .box = {{20 * rank, 0}, {20, 1000}},
                  .data = values.data(),
                  .strides = {1000, 1}});
    }
    file.Close();
    if (rank != 0) return 0;
    AwaitRankFiles(directory, ranks, [] { return false; });
    checkpoint::Manifest header;
    header.mutable_progress()->set_step(step);
    CommitCheckpoint(directory, ranks, header);
    RemoveOldCheckpoints(output, keep);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
