// The weights of a Hugging Face directory with more rows in some tensors. New rows are the mean of the old ones, to
// which transformers' mean_resizing adds a noise of 1e-9 times their covariance. Files without such a tensor are
// linked, not copied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

namespace trireme {

// `tensors`: names of those that have `rows` rows and get `new_rows`; one that the directory lacks is skipped, one of
// another shape is refused.
struct RowGrowth {
  std::set<std::string> tensors;
  int64_t rows = 0, new_rows = 0;
};

// Into an existing directory. Refuses a checkpoint of ours: it is to be exported first.
void WriteGrownWeights(const std::filesystem::path& from, const std::filesystem::path& to, const RowGrowth& growth);

}  // namespace trireme
