#include "train/report/appended_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace trireme {

AppendedFile::AppendedFile(const std::filesystem::path& path)
    : path_(path), fd_(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644)) {
  if (fd_ < 0) {
    throw InputError(path.string(), " cannot be written: ", std::strerror(errno), "; is the directory writable?");
  }
}

AppendedFile::~AppendedFile() { close(fd_); }

void AppendedFile::Append(std::string_view text) {
  CheckIsThere();
  while (!text.empty()) {
    const ssize_t written = write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw RuntimeError(path_.string(), " can no longer be written: ", std::strerror(errno), "; is the disk full?");
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void AppendedFile::CheckIsThere() const {
  struct stat here{}, open_one{};
  const bool same = stat(path_.c_str(), &here) == 0 && fstat(fd_, &open_one) == 0 && here.st_dev == open_one.st_dev &&
                    here.st_ino == open_one.st_ino;
  if (same) return;
  throw RuntimeError(path_.string(), " was removed, moved or replaced during the run; the run ends here. ",
                     "Restore the output directory's name and start again: run.resume: auto resumes from ",
                     "its newest checkpoint");
}

}  // namespace trireme
