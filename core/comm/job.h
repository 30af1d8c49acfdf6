// The process's place in the job: its rank, the ranks on its host, and the few exchanges that start-up needs,
// over MPI. A process started alone uses no MPI: rank 0 of 1. Training data never passes here; that is
// communicator.h. Long waits in MPI are reported (mpi_waits.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/comm/mpi_waits.h"

namespace trireme {

class Job {
 public:
  // Joins the job that mpirun started, or runs alone if there is none. Once per process, on the main
  // thread, which is the only one to call MPI afterwards.
  Job();
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const { return rank_; }
  int world() const { return world_; }
  int local_rank() const { return local_rank_; }  // among the ranks of this host
  int local_size() const { return local_size_; }
  int hosts() const { return hosts_; }
  bool under_mpi() const { return under_mpi_; }

  // Collective over the world.
  void Barrier();
  void BroadcastBytes(void* data, size_t bytes, int root = 0);
  // The text of every rank, in rank order, on every rank.
  std::vector<std::string> GatherStrings(const std::string& mine);
  double Max(double mine);

  // From members.front() to the others; only `members` take part, so disjoint groups can call it
  // concurrently.
  void HandOut(std::span<const int> members, void* data, size_t bytes);

  // Null if the process runs alone.
  MpiWaits* waits() { return waits_.get(); }

  // Leaves the job together with all other ranks. The destructor does so if nothing failed.
  void Finish();

  // Ends the whole job, this process included: a rank that merely exits leaves the others in a collective.
  [[noreturn]] void Abort(int exit_status);

 private:
  void FindHostMates();

  std::unique_ptr<MpiWaits> waits_;
  bool under_mpi_ = false;
  bool finished_ = false;
  int rank_ = 0;
  int world_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  int hosts_ = 1;
};

// "Open MPI v4.1.4": the loaded library, even if the process runs alone.
std::string MpiLibraryVersion();

}  // namespace trireme
