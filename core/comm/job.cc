#include "core/comm/job.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "core/base/error.h"
#include "core/comm/mpi_library.h"
#include "core/comm/stale_segments.h"

namespace trireme {
namespace {

// Set by mpirun of Open MPI, by PMIx launchers (srun --mpi=pmix), and by those of MPICH.
constexpr const char* kLauncherVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};

bool StartedByLauncher() {
  for (const char* name : kLauncherVariables) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

// The rank as the launcher names it; MPI reports it only once all ranks have joined.
std::string RankBeforeMpi() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* text = std::getenv(name)) return text;
  }
  return "?";
}

std::string Who(const std::string& rank) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return Concat("rank ", rank, " (host ", host, ", process ", getpid(), ")");
}

// Once per host. Segments of this job are in use or do not exist yet. Not logged: nobody has to act on it, and a wrong
// input is answered by one line.
void RemoveSegmentsOfKilledJobs() {
  const char* local_rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  if (local_rank == nullptr || std::strcmp(local_rank, "0") != 0) return;
  RemoveStaleSegments();
}

constexpr int kHandOutTag = 7001;

}  // namespace

Job::Job() {
  if (!StartedByLauncher()) return;
  int provided = MPI_THREAD_SINGLE;
  RemoveSegmentsOfKilledJobs();
  Mpi();  // what is wrong with it is said before anything waits
  waits_ = std::make_unique<MpiWaits>(Who(RankBeforeMpi()), MpiWaits::DefaultLimit_s());
  {
    const MpiWaits::Call call(waits_.get(), "MPI_Init");
    Mpi().Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  }
  if (provided < MPI_THREAD_FUNNELED) {
    throw RuntimeError("MPI provides thread level ", provided, ", wanted MPI_THREAD_FUNNELED (", MPI_THREAD_FUNNELED,
                       "): build Open MPI with thread support");
  }
  under_mpi_ = true;
  Mpi().Comm_rank(Mpi().world, &rank_);
  Mpi().Comm_size(Mpi().world, &world_);
  waits_->set_who(Who(std::to_string(rank_)));
  FindHostMates();
}

Job::~Job() {
  // While an error unwinds the others may be in a collective: main ends the job with Abort instead.
  if (std::uncaught_exceptions() == 0) Finish();
}

void Job::FindHostMates() {
  const MpiWaits::Call call(waits_.get(), "MPI_Comm_split");
  MPI_Comm host = nullptr;
  Mpi().Comm_split_type(Mpi().world, MPI_COMM_TYPE_SHARED, rank_, Mpi().no_info, &host);
  Mpi().Comm_rank(host, &local_rank_);
  Mpi().Comm_size(host, &local_size_);
  Mpi().Comm_free(&host);
  const int leads_host = local_rank_ == 0 ? 1 : 0;
  Mpi().Allreduce(&leads_host, &hosts_, 1, Mpi().ints, Mpi().sum, Mpi().world);
}

void Job::Barrier() {
  const MpiWaits::Call call(waits_.get(), "MPI_Barrier");
  if (under_mpi_) Mpi().Barrier(Mpi().world);
}

void Job::BroadcastBytes(void* data, size_t bytes, int root) {
  const MpiWaits::Call call(waits_.get(), "MPI_Bcast");
  if (under_mpi_) Mpi().Bcast(data, static_cast<int>(bytes), Mpi().bytes, root, Mpi().world);
}

std::vector<std::string> Job::GatherStrings(const std::string& mine) {
  if (!under_mpi_) return {mine};
  const MpiWaits::Call call(waits_.get(), "MPI_Allgather");
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(world_);
  Mpi().Allgather(&length, 1, Mpi().ints, lengths.data(), 1, Mpi().ints, Mpi().world);
  std::vector<int> offsets(world_);
  for (int r = 1; r < world_; ++r) offsets[r] = offsets[r - 1] + lengths[r - 1];
  std::string all(offsets.back() + lengths.back(), '\0');
  Mpi().Allgatherv(mine.data(), length, Mpi().bytes, all.data(), lengths.data(), offsets.data(), Mpi().bytes,
                   Mpi().world);
  std::vector<std::string> texts;
  for (int r = 0; r < world_; ++r) texts.push_back(all.substr(offsets[r], lengths[r]));
  return texts;
}

double Job::Max(double mine) {
  const MpiWaits::Call call(waits_.get(), "MPI_Allreduce");
  double greatest = mine;
  if (under_mpi_) Mpi().Allreduce(&mine, &greatest, 1, Mpi().fp64, Mpi().max, Mpi().world);
  return greatest;
}

void Job::HandOut(std::span<const int> members, void* data, size_t bytes) {
  const MpiWaits::Call call(waits_.get(), rank_ == members.front() ? "MPI_Send" : "MPI_Recv", /*everyone=*/false);
  const int count = static_cast<int>(bytes);
  if (rank_ != members.front()) {
    Mpi().Recv(data, count, Mpi().bytes, members.front(), kHandOutTag, Mpi().world, MPI_STATUS_IGNORE);
    return;
  }
  for (int member : members.subspan(1)) {
    Mpi().Send(data, count, Mpi().bytes, member, kHandOutTag, Mpi().world);
  }
}

void Job::Finish() {
  if (!under_mpi_ || finished_) return;
  finished_ = true;
  const MpiWaits::Call call(waits_.get(), "MPI_Finalize");
  Mpi().Finalize();
}

void Job::Abort(int exit_status) {
  std::fflush(nullptr);
  if (under_mpi_ && !finished_) Mpi().Abort(Mpi().world, exit_status);
  std::_Exit(exit_status);
}

std::string MpiLibraryVersion() try {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  Mpi().Get_library_version(text, &length);
  const std::string all(text, length);
  return all.substr(0, all.find(','));
} catch (const Error&) {  // a single rank needs none
  return "none found";
}

}  // namespace trireme
