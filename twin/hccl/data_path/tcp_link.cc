// Frames, and the transfer of bytes between the socket and two buffers. Hosts of one group share a byte
// order.
#include "twin/hccl/data_path/tcp_link.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "twin/hccl/failure.h"

namespace twin {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are written in memory layout");

constexpr uint32_t kTcpLinkMagic = 0x54574e31;
constexpr size_t kBufferBytes = 512 * 1024;
constexpr size_t kLargestControl = 64 * 1024 * 1024;

struct FrameHeader {
  uint32_t magic;
  FrameKind kind;
  uint64_t tag;  // which operation the content belongs to
  uint64_t bytes;
};

}  // namespace

TcpLink::TcpLink(int socket, std::string peer_name, OnControl on_control)
    : socket_(socket), peer_name_(std::move(peer_name)), on_control_(std::move(on_control)) {}

void TcpLink::Append(FrameKind kind, uint64_t tag, size_t bytes) {
  const FrameHeader header{kTcpLinkMagic, kind, tag, bytes};
  const auto* start = reinterpret_cast<const std::byte*>(&header);
  out_.insert(out_.end(), start, start + sizeof(header));
}

void TcpLink::SendControl(FrameKind kind, uint64_t sequence, std::span<const std::byte> content) {
  Append(kind, sequence, content.size());
  out_.insert(out_.end(), content.begin(), content.end());
  SendSome();
}

std::span<std::byte> TcpLink::Reserve() {
  if (out_.size() - out_begin_ >= kBufferBytes) return {};
  room_.resize(kBufferBytes / 4);
  return room_;
}

void TcpLink::Push(size_t bytes) {
  if (bytes == 0) return;
  Append(FrameKind::kData, outgoing_tag_, bytes);
  out_.insert(out_.end(), room_.begin(), room_.begin() + static_cast<ptrdiff_t>(bytes));
  SendSome();
}

std::span<const std::byte> TcpLink::Peek() {
  while (data_left_ == 0 && ParseSome()) continue;
  if (data_left_ == 0) return {};
  if (data_tag_ != incoming_tag_)
    throw HcclFailure(HCCL_E_INTERNAL, "data of operation " + std::to_string(data_tag_) + " arrived from " +
                                           peer_name_ + " where operation " + std::to_string(incoming_tag_) +
                                           " was expected");
  return {in_.data() + in_begin_, std::min(data_left_, in_end_ - in_begin_)};
}

void TcpLink::Pop(size_t bytes) {
  in_begin_ += bytes;
  data_left_ -= bytes;
}

bool TcpLink::Progress() {
  bool moved = SendSome();
  moved |= ReceiveSome();
  while (data_left_ == 0 && ParseSome()) moved = true;
  return moved;
}

bool TcpLink::SendSome() {
  bool moved = false;
  while (!broken_ && out_begin_ < out_.size()) {
    const ssize_t n = send(socket_, out_.data() + out_begin_, out_.size() - out_begin_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    // The monitor reports a broken connection; until it does, the bytes count as unsent.
    if (n < 0) broken_ = true;
    if (n > 0) out_begin_ += static_cast<size_t>(n), moved = true;
  }
  if (out_begin_ == out_.size()) {
    out_.clear();
    out_begin_ = 0;
  } else if (out_begin_ > kBufferBytes) {
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(out_begin_));
    out_begin_ = 0;
  }
  return moved;
}

bool TcpLink::ReceiveSome() {
  if (at_end_) return false;
  if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
  if (in_.size() < kBufferBytes) in_.resize(kBufferBytes);
  if (in_end_ == in_.size()) {
    if (in_begin_ < in_.size() / 2) return false;
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  const ssize_t n = recv(socket_, in_.data() + in_end_, in_.size() - in_end_, 0);
  if (n > 0) in_end_ += static_cast<size_t>(n);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) at_end_ = true;
  return n > 0;
}

// Takes the next frame's header, and its content too if it is a control frame. False if it has not arrived
// yet.
bool TcpLink::ParseSome() {
  FrameHeader header;
  if (in_end_ - in_begin_ < sizeof(header)) return false;
  std::memcpy(&header, in_.data() + in_begin_, sizeof(header));
  if (header.magic != kTcpLinkMagic || (header.kind != FrameKind::kData && header.bytes > kLargestControl))
    throw HcclFailure(HCCL_E_TCP_TRANSFER, "the data from " + peer_name_ + " is not a frame of this library");
  if (header.kind == FrameKind::kData) {
    in_begin_ += sizeof(header);
    data_left_ = header.bytes;
    data_tag_ = header.tag;
    return true;
  }
  const size_t whole = sizeof(header) + header.bytes;
  if (in_.size() - in_begin_ < whole) {
    // Longer than the space after it: make room; the rest arrives with the next reads.
    in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(in_begin_));
    in_end_ -= in_begin_;
    in_begin_ = 0;
    in_.resize(std::max(whole, kBufferBytes));
  }
  if (in_end_ - in_begin_ < whole) return false;
  on_control_(header.kind, header.tag, {in_.data() + in_begin_ + sizeof(header), header.bytes});
  in_begin_ += whole;
  return true;
}

}  // namespace twin
