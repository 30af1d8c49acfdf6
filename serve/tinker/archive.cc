#include "serve/tinker/archive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "net/secret.h"

namespace trireme::tinker {
namespace {

constexpr int64_t kPieceBytes = 256 * 1024;
constexpr int64_t kTarBlock = 512;
constexpr int64_t kTarMostBytes = int64_t{1} << 33;  // eleven octal digits

// POSIX's ustar header of a plain file.
std::string TarHeader(const std::string& name, int64_t bytes) {
  if (name.size() > 100 || bytes >= kTarMostBytes)
    throw RuntimeError("a tar cannot hold ", name, " of ", bytes, " bytes");
  std::string block(static_cast<size_t>(kTarBlock), '\0');
  const auto put = [&](size_t at, const std::string& text) { block.replace(at, text.size(), text); };
  const auto octal = [&](size_t at, int digits, int64_t value) {
    char text[16];
    std::snprintf(text, sizeof(text), "%0*llo", digits, static_cast<unsigned long long>(value));
    put(at, text);
  };
  put(0, name);
  octal(100, 7, 0644);
  octal(108, 7, 0);
  octal(116, 7, 0);
  octal(124, 11, bytes);
  octal(136, 11, 0);
  put(148, "        ");  // the checksum counts itself as blanks
  put(156, "0");
  put(257, std::string("ustar\0"
                       "00",
                       8));
  int64_t sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  octal(148, 6, sum);
  block[154] = '\0';
  return block;
}

std::string TarPadding(int64_t bytes) {
  return std::string(static_cast<size_t>((kTarBlock - bytes % kTarBlock) % kTarBlock), '\0');
}

}  // namespace

FileStream::FileStream(FileStream&& other) noexcept
    : parts_(std::exchange(other.parts_, {})), at_(other.at_), done_(other.done_), bytes_(other.bytes_) {}

FileStream::~FileStream() {
  for (const Part& part : parts_) {
    if (part.file >= 0) ::close(part.file);
  }
}

void FileStream::AddText(std::string text) {
  bytes_ += std::ssize(text);
  const int64_t bytes = std::ssize(text);
  parts_.push_back({.text = std::move(text), .bytes = bytes});
}

void FileStream::AddFile(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) throw RuntimeError("cannot open ", file.string(), ": ", std::strerror(errno));
  parts_.push_back({.file = fd, .name = file.filename().string()});
  struct stat facts = {};
  if (::fstat(fd, &facts) != 0) throw RuntimeError("cannot look at ", file.string(), ": ", std::strerror(errno));
  parts_.back().bytes = facts.st_size;
  bytes_ += facts.st_size;
}

FileStream FileStream::OfFile(const std::filesystem::path& file) {
  FileStream stream;
  stream.AddFile(file);
  return stream;
}

FileStream FileStream::OfTar(const std::vector<std::filesystem::path>& files, const std::vector<std::string>& marks) {
  FileStream stream;
  for (const std::filesystem::path& file : files) {
    FileStream one = OfFile(file);
    stream.AddText(TarHeader(one.parts_.front().name, one.bytes_));
    stream.bytes_ += one.bytes_;
    stream.parts_.push_back(std::move(one.parts_.front()));
    one.parts_.clear();
    stream.AddText(TarPadding(stream.parts_.back().bytes));
  }
  for (const std::string& mark : marks) stream.AddText(TarHeader(mark, 0));
  stream.AddText(std::string(static_cast<size_t>(2 * kTarBlock), '\0'));
  return stream;
}

std::string FileStream::Next() {
  while (at_ < parts_.size() && done_ == parts_[at_].bytes) {
    ++at_;
    done_ = 0;
  }
  if (at_ == parts_.size()) return "";
  const Part& part = parts_[at_];
  const int64_t wanted = std::min(kPieceBytes, part.bytes - done_);
  if (part.file < 0) {
    std::string piece = part.text.substr(static_cast<size_t>(done_), static_cast<size_t>(wanted));
    done_ += wanted;
    return piece;
  }
  std::string piece(static_cast<size_t>(wanted), '\0');
  const ssize_t count = ::pread(part.file, piece.data(), piece.size(), done_);
  if (count <= 0) throw RuntimeError("cannot read ", part.name, " at byte ", done_, " of ", part.bytes);
  piece.resize(static_cast<size_t>(count));
  done_ += count;
  return piece;
}

Links::Links() : secret_(net::NewSecret()) {}

std::string Links::SignatureOf(const std::string& text, const std::string& expires) const {
  return net::Hex(net::Proof(secret_, text + " " + expires));
}

std::string Links::Sign(const std::string& text, int64_t expires) const {
  const std::string until = std::to_string(expires);
  return text + "?expires=" + until + "&signature=" + SignatureOf(text, until);
}

bool Links::Check(const std::string& target, int64_t now) const {
  const std::string first = "?expires=", second = "&signature=";
  const size_t at = target.find(first), then = at == std::string::npos ? at : target.find(second, at);
  if (then == std::string::npos) return false;
  const std::string until = target.substr(at + first.size(), then - at - first.size());
  const bool right = net::SameProof(SignatureOf(target.substr(0, at), until), target.substr(then + second.size()));
  return right && std::strtoll(until.c_str(), nullptr, 10) > now;
}

}  // namespace trireme::tinker
