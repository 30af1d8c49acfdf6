// Open file description locks: released with the process, seen by every host on NFS, Lustre and similar file
// systems. Two bytes of one file: the first is the run's, held exclusively by rank 0; the second is shared by
// all ranks, so that a new run also waits for ranks whose rank 0 died before them.
#include "train/run/output_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <system_error>
#include <thread>

#include "core/base/error.h"
#include "core/base/log.h"

namespace trireme {
namespace {

constexpr const char* kLockFile = ".lock";
constexpr off_t kRunByte = 0, kRanksByte = 1;
constexpr auto kRetry = std::chrono::milliseconds(100);
constexpr int kRetries = 100;  // while a launcher ends ranks, or a file server is slow to propagate a name

enum class Taken { kYes, kByAnother, kNoLocks };

Taken TryLock(int fd, short type, off_t byte) {
  struct flock range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  while (fcntl(fd, F_OFD_SETLK, &range) != 0) {
    switch (errno) {
      case EINTR:
        continue;
      case EAGAIN:
      case EACCES:
        return Taken::kByAnother;
      case EINVAL:
      case ENOLCK:
      case ENOSYS:
      case EOPNOTSUPP:
        return Taken::kNoLocks;
      default:
        throw RuntimeError("the lock of run.output cannot be acquired: ", std::strerror(errno));
    }
  }
  return Taken::kYes;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "a host without a name";
}

// Who holds it, for a run that finds it taken.
std::string HolderText() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  std::ostringstream text;
  text << "process " << getpid() << " on " << HostName() << ", since " << std::put_time(&utc, "%F %T") << " UTC";
  return text.str();
}

// The holder writes its name after it has the lock: it gets a moment to do so.
std::string ReadHolder(int fd) {
  constexpr int kTries = 20;
  char text[512] = {};
  ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
  for (int i = 0; i < kTries && bytes == 0; ++i) {
    std::this_thread::sleep_for(kRetry);
    bytes = pread(fd, text, sizeof(text) - 1, 0);
  }
  return bytes > 0 ? Concat(" (", std::string(text, static_cast<size_t>(bytes)), ")") : "";
}

bool IsNamed(int fd, const std::filesystem::path& file) {
  struct stat open_one = {}, named = {};
  return fstat(fd, &open_one) == 0 && stat(file.c_str(), &named) == 0 && open_one.st_ino == named.st_ino &&
         open_one.st_dev == named.st_dev;
}

// The directory and those above it; `made` receives those that were missing, outermost first.
void MakeDirectories(const std::filesystem::path& output, std::vector<std::filesystem::path>& made) {
  std::error_code error;
  for (std::filesystem::path at = output; !at.empty() && !std::filesystem::exists(at, error); at = at.parent_path()) {
    if (at.has_filename()) made.insert(made.begin(), at);
  }
  std::filesystem::create_directories(output, error);
  if (error) throw InputError("run.output ", output.string(), " cannot be created: ", error.message());
}

// Whether other hosts see the locks, too; warns if not.
bool OtherHostsSeeLocks(int fd, const std::filesystem::path& output) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) return false;
  std::ifstream file("/proc/self/mountinfo");
  const std::string mounts{std::istreambuf_iterator<char>(file), {}};
  if (!LocksAreLocal(mounts, Concat(major(status.st_dev), ":", minor(status.st_dev)))) return true;
  TRIREME_LOG(WARNING) << "run.output " << output.string()
                       << ": locks on its file system are visible to this host only; make sure that no other "
                          "host starts a run there";
  return false;
}

}  // namespace

OutputLock::OutputLock(const std::filesystem::path& output, Job& job) : output_(output), file_(output / kLockFile) {
  if (job.rank() == 0) TakeForRun();
  job.Barrier();
  if (job.rank() != 0) TakeForRank(job);
}

OutputLock::~OutputLock() {
  if (holds_run_ && !(begun_ && std::uncaught_exceptions() > 0)) {
    unlink(file_.c_str());  // while it is held: whoever opened it before will find it unlinked
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) rmdir(folder->c_str());
  }
  if (fd_ >= 0) close(fd_);
}

void OutputLock::TakeForRun() {
  Taken taken = Taken::kByAnother;
  do {  // retry if the previous run has just removed its file or its directory
    if (fd_ >= 0) close(fd_);
    MakeDirectories(output_, made_);
    fd_ = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0 && errno == ENOENT) continue;
    if (fd_ < 0) {
      throw InputError("run.output ", output_.string(), " cannot be written: ", std::strerror(errno));
    }
    taken = TryLock(fd_, F_WRLCK, kRunByte);
    if (taken == Taken::kByAnother) {
      throw InputError("run.output ", output_.string(), " is in use by another run", ReadHolder(fd_),
                       "; wait until it ends, or choose another directory");
    }
  } while (fd_ < 0 || !IsNamed(fd_, file_));
  holds_run_ = true;
  if (taken == Taken::kNoLocks) {
    TRIREME_LOG(WARNING) << "run.output " << output_.string()
                         << ": its file system has no locks; make sure that no other run is started there";
    return;
  }
  for (int tries = 0; TryLock(fd_, F_WRLCK, kRanksByte) == Taken::kByAnother; ++tries) {
    if (tries == kRetries) {
      throw InputError("run.output ", output_.string(), " is still used by ranks of an earlier run", ReadHolder(fd_),
                       "; end them, or choose another directory");
    }
    std::this_thread::sleep_for(kRetry);
  }
  TryLock(fd_, F_RDLCK, kRanksByte);
  excludes_all_ = OtherHostsSeeLocks(fd_, output_);
  const std::string holder = HolderText();
  if (ftruncate(fd_, 0) == 0) (void)!pwrite(fd_, holder.data(), holder.size(), 0);  // informational only
}

void OutputLock::TakeForRank(const Job& job) {
  for (int tries = 0; (fd_ = open(file_.c_str(), O_RDWR | O_CLOEXEC)) < 0; ++tries) {
    if (tries == kRetries) {
      throw InputError("run.output ", output_.string(), " is not the directory of rank 0: rank ", job.rank(), " on ",
                       HostName(), " finds no ", file_.string(), "; name a directory that all hosts share");
    }
    std::this_thread::sleep_for(kRetry);
  }
  TryLock(fd_, F_RDLCK, kRanksByte);
}

bool LocksAreLocal(const std::string& mountinfo, const std::string& device) {
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id, parent, number;
    words >> id >> parent >> number;
    if (number != device) continue;
    for (char& letter : line) letter = letter == ',' ? ' ' : letter;
    std::istringstream options(line);
    for (std::string option; options >> option;) {
      for (const char* local : {"nolock", "local_lock=posix", "local_lock=all", "localflock"}) {
        if (option == local) return true;
      }
    }
  }
  return false;
}

}  // namespace trireme
