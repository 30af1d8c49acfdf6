// Whole frames over stream sockets, with file descriptors attached on Unix sockets.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "twin/hccl/wire/sockets.h"

namespace twin {
namespace {

constexpr size_t kMaxFiles = 2;

union FileSpace {  // cmsghdr provides the alignment that the kernel requires
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int) * kMaxFiles)];
};

void AttachFiles(msghdr* message, FileSpace* space, const std::vector<int>& files) {
  if (files.empty()) return;
  message->msg_control = space->bytes;
  message->msg_controllen = CMSG_SPACE(sizeof(int) * files.size());
  cmsghdr* header = CMSG_FIRSTHDR(message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * files.size());
  std::memcpy(CMSG_DATA(header), files.data(), sizeof(int) * files.size());
}

void CollectFiles(msghdr* message, std::vector<Fd>* files) {
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::vector<int> numbers(count);
    std::memcpy(numbers.data(), CMSG_DATA(header), sizeof(int) * count);
    for (const int number : numbers) files->emplace_back(number);
  }
}

bool WaitWritable(int socket, Deadline deadline) {
  pollfd writable{socket, POLLOUT, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - After(0)).count();
  return poll(&writable, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1000))) != 0 || left > 0;
}

}  // namespace

void SendFrame(int socket, const Frame& frame, Deadline deadline, const std::vector<int>& files) {
  const FrameHeader header{.type = frame.type, .bytes = frame.payload.size()};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += frame.payload;
  size_t sent = 0;
  while (sent < bytes.size()) {
    iovec part{bytes.data() + sent, bytes.size() - sent};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    FileSpace space{};
    if (sent == 0) AttachFiles(&message, &space, files);
    const ssize_t count = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {
      if (!WaitWritable(socket, deadline)) throw HcclFailure(HCCL_E_TIMEOUT, "a peer is not reading its messages");
    } else if (errno != EINTR) {
      throw HcclFailure(HCCL_E_REMOTE, std::string("a message could not be sent: ") + std::strerror(errno));
    }
  }
}

bool FrameBuffer::Fill(int socket) {
  char chunk[16384];
  while (true) {
    iovec part{chunk, sizeof(chunk)};
    FileSpace space{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space.bytes;
    message.msg_controllen = sizeof(space.bytes);
    const ssize_t count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (count > 0) {
      CollectFiles(&message, &files_);
      bytes_.append(chunk, static_cast<size_t>(count));
    } else if (count == 0) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    } else if (errno != EINTR) {
      return false;
    }
  }
}

std::optional<Frame> FrameBuffer::Next() {
  FrameHeader header;
  if (bytes_.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  if (header.magic != FrameHeader::kMagic || header.bytes > FrameHeader::kMaxBytes) {
    throw HcclFailure(HCCL_E_TCP_TRANSFER, "received bytes that are not a message of this library");
  }
  if (bytes_.size() - sizeof(header) < header.bytes) return std::nullopt;
  Frame frame{header.type, bytes_.substr(sizeof(header), header.bytes)};
  bytes_.erase(0, sizeof(header) + header.bytes);
  return frame;
}

Frame ReceiveFrame(int socket, FrameBuffer& buffer, Deadline deadline, const std::string& whom) {
  bool open = true;
  while (true) {
    // What arrived before the end counts: a verdict is sent and its connection closed at once.
    if (std::optional<Frame> frame = buffer.Next()) return *std::move(frame);
    if (!open) throw HcclFailure(HCCL_E_REMOTE, whom + " closed its connection before the communicator was complete");
    if (!WaitReadable({socket}, deadline)) {
      throw HcclFailure(HCCL_E_TIMEOUT, "no message from " + whom + " within the connect timeout");
    }
    open = buffer.Fill(socket);
  }
}

}  // namespace twin
