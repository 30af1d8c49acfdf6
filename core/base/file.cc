// Uses descriptors because they report why a directory or a broken disk cannot be read; streams do not.
#include "core/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace trireme {
namespace {

[[noreturn]] void Refuse(const std::filesystem::path& path, int number) {
  throw InputError(Printable(path.string()), ": cannot be read: ", std::strerror(number));
}

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

std::filesystem::file_type TypeOf(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::status(path, error).type();
  if (type != std::filesystem::file_type::none) return type;
  Refuse(path, error.value());
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }

 private:
  const int fd_;
};

std::string Escape(unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

int OpenInput(const std::filesystem::path& path) {
  // Non-blocking: a FIFO without a writer must not delay its own rejection.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) Refuse(path, errno);
  struct stat status{};
  const int number = fstat(fd, &status) == 0 ? 0 : errno;
  if (number == 0 && S_ISREG(status.st_mode)) return fd;
  close(fd);
  if (number != 0) Refuse(path, number);
  throw InputError(Printable(path.string()), ": is ", KindOf(status.st_mode), "; wanted a regular file");
}

std::string ReadTextFile(const std::string& path) {
  const Descriptor file(OpenInput(path));
  std::string text;
  char block[65536];
  for (;;) {
    const ssize_t bytes = read(file, block, sizeof(block));
    if (bytes == 0) return text;
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) Refuse(path, errno);
    text.append(block, static_cast<size_t>(bytes));
  }
}

bool PathExists(const std::filesystem::path& path) { return TypeOf(path) != std::filesystem::file_type::not_found; }

bool IsDirectory(const std::filesystem::path& path) { return TypeOf(path) == std::filesystem::file_type::directory; }

std::string Printable(const std::string& text) {
  const auto next_bad = [&](size_t from) {
    const size_t found = FirstNotUtf8(std::string_view(text).substr(from));
    return found == std::string_view::npos ? found : from + found;
  };
  std::string shown;
  size_t bad = next_bad(0);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, where U+009B starts terminal commands, are c2 80 to c2 9f in UTF-8.
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    const bool in_c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    if (byte == '\n') {
      shown += "\\n";
    } else if (i == bad || byte < 0x20 || byte == 0x7f) {
      shown += Escape(byte);
      if (i == bad) bad = next_bad(i + 1);
    } else if (in_c1) {
      shown += Escape(static_cast<unsigned char>(text[++i]));
    } else {
      shown += static_cast<char>(byte);
    }
  }
  return shown;
}

}  // namespace trireme
