#include "train/rollouts/asked_rank.h"

#include <cstdint>
#include <optional>

#include "core/base/error.h"
#include "train/rollouts/rollout_source.h"

namespace trireme {

std::string AskOnRankZero(Job& job, const std::function<std::string()>& ask) {
  struct Head {
    int64_t bytes = 0;
    int32_t failed = 0;
    int32_t reserved = 0;
  } head;
  std::string text;
  std::optional<SamplerError> failure;
  if (job.rank() == 0) {
    try {
      text = ask();
    } catch (const Error& error) {
      failure.emplace(error.kind(), error.what());
      text = error.what();
    }
    head = {.bytes = std::ssize(text), .failed = failure.has_value()};
  }
  job.BroadcastBytes(&head, sizeof head);
  text.resize(static_cast<size_t>(head.bytes));
  job.BroadcastBytes(text.data(), text.size());
  if (failure) throw *failure;
  if (head.failed != 0) throw SamplerError(ErrorKind::kRemote, "rank 0 failed: " + text);
  return text;
}

}  // namespace trireme
