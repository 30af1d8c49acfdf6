#include "web/hub/fetch_blob.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/io/file_system.h"
#include "net/fd.h"
#include "web/hub/blob_digest.h"
#include "web/hub/retries.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

int64_t BytesIn(const fs::path& file) {
  std::error_code absent;
  const auto size = fs::file_size(file, absent);
  return absent ? 0 : static_cast<int64_t>(size);
}

[[noreturn]] void RefuseToWrite(const fs::path& file, const char* variable) {
  throw InputError(file.string(), ": cannot be written: ", std::strerror(errno), "; free some space, or set ", variable,
                   " to another directory");
}

// A file that is never truncated: another process may be writing the same bytes.
class PartialFile {
 public:
  PartialFile(const fs::path& path, const char* variable)
      : path_(path), variable_(variable), fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) {
    if (!fd_.valid()) RefuseToWrite(path_, variable_);
  }
  void Write(int64_t position, std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = pwrite(fd_.get(), bytes.data(), bytes.size(), position);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) RefuseToWrite(path_, variable_);
      bytes.remove_prefix(static_cast<size_t>(written));
      position += written;
    }
  }

 private:
  const fs::path path_;
  const char* const variable_;  // says where files are kept
  const net::Fd fd_;
};

// The rest of the file, or as much of it as comes: a runtime error if that is not all.
void ReadRest(const HubSource& hub, const std::string& commit, const HubFile& file, const fs::path& partial,
              Retries& retries, DownloadProgress& progress) {
  if (BytesIn(partial) > file.size) RemoveAll(partial);
  const int64_t here = BytesIn(partial);
  const PartialFile writer(partial, hub.cache_variable());
  if (here == file.size) return;  // a process was killed after the last byte
  int64_t end = here;
  hub.Read(commit, file, here, [&](int64_t position, std::string_view bytes) {
    end = position + std::ssize(bytes);
    if (end > file.size)
      throw InputError(file.name, ": ", hub.who(), " sends more than its ", file.size, " bytes; try again, or set ",
                       hub.endpoint_variable());
    writer.Write(position, bytes);
    if (end > here) retries.Progressed();
    progress.At(file.name, end, std::ssize(bytes));
  });
  if (end < file.size) throw RuntimeError(file.name, ": ", hub.who(), " sent ", end, " of ", file.size, " bytes");
}

void ReadAll(const HubSource& hub, const std::string& commit, const HubFile& file, const fs::path& partial,
             DownloadProgress& progress) {
  for (Retries retries;;) {
    try {
      return ReadRest(hub, commit, file, partial, retries, progress);
    } catch (const Error& error) {
      retries.Failed(error);
    }
  }
}

}  // namespace

void FetchBlob(const HubSource& hub, const std::string& commit, const HubFile& file, const fs::path& blob,
               DownloadProgress& progress) {
  const fs::path partial = blob.string() + ".incomplete";
  std::string digest;
  for (int tries = 0; tries < 2; ++tries) {  // the first may have begun with bytes that a crash damaged
    ReadAll(hub, commit, file, partial, progress);
    digest = BlobDigest(partial, file.digest.size());
    if (digest == file.digest) {
      SyncFile(partial);
      return RenameAndSync(partial, blob);
    }
    TRIREME_LOG(WARNING) << file.name << ": the bytes that came have the digest " << digest << ", not " << file.digest;
    RemoveAll(partial);
  }
  throw InputError(file.name, ": what ", hub.who(), " sends has the ", digest.size() == 64 ? "sha256 " : "sha1 ",
                   digest, "; wanted ", file.digest, ": check ", hub.endpoint_variable(),
                   " and the proxies on the way");
}

}  // namespace trireme
