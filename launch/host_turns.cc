#include "launch/host_turns.h"

namespace trireme {
namespace {

// A download takes as long as it takes: ranks that wait for it do not report that.
void WaitForDownload(Job& job) {
  if (job.waits() != nullptr) job.waits()->set_limit(0);
  job.Barrier();
  if (job.waits() != nullptr) job.waits()->set_limit(MpiWaits::DefaultLimit_s());
}

}  // namespace

void FetchInTurns(Job& job, const std::function<bool()>& is_missing, const std::function<void()>& fetch) {
  if (job.Max(is_missing() ? 1 : 0) == 0) return;
  if (job.rank() == 0 && is_missing()) fetch();
  WaitForDownload(job);
  if (job.rank() != 0 && job.local_rank() == 0 && is_missing()) fetch();
  WaitForDownload(job);
}

}  // namespace trireme
