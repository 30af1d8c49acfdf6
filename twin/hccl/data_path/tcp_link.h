// A link over a non-blocking TCP socket. Everything on the wire is a frame; what members tell each other
// (posts, offers) travels between the data and is passed to the owner as soon as it is read.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "twin/hccl/data_path/links.h"

namespace twin {

enum class FrameKind : uint32_t { kData = 1, kPost = 2, kSendOffer = 3, kReceiveOffer = 4 };

class TcpLink : public Link {
 public:
  using OnControl = std::function<void(FrameKind kind, uint64_t sequence, std::span<const std::byte> content)>;

  // The caller keeps ownership of the socket. `peer_name` is for error messages.
  TcpLink(int socket, std::string peer_name, OnControl on_control);

  void SendControl(FrameKind kind, uint64_t sequence, std::span<const std::byte> content);

  std::span<std::byte> Reserve() override;
  void Push(size_t bytes) override;
  std::span<const std::byte> Peek() override;
  void Pop(size_t bytes) override;
  void SetOutgoingTag(uint64_t tag) override { outgoing_tag_ = tag; }
  void SetIncomingTag(uint64_t tag) override { incoming_tag_ = tag; }
  bool Progress() override;
  bool flushed() const override { return out_begin_ == out_.size(); }
  bool at_end() const override { return at_end_; }

 private:
  bool SendSome();
  bool ReceiveSome();
  bool ParseSome();
  void Append(FrameKind kind, uint64_t tag, size_t bytes);

  int socket_;
  std::string peer_name_;
  OnControl on_control_;
  std::vector<std::byte> out_;  // frames not yet sent: [out_begin_, end)
  size_t out_begin_ = 0;
  std::vector<std::byte> room_;  // the space that Reserve returns
  std::vector<std::byte> in_;    // bytes received and not yet consumed: [in_begin_, in_end_)
  size_t in_begin_ = 0, in_end_ = 0;
  size_t data_left_ = 0;  // remaining bytes of the data frame at in_begin_
  uint64_t data_tag_ = 0;
  uint64_t outgoing_tag_ = 0, incoming_tag_ = 0;
  bool at_end_ = false;
  bool broken_ = false;
};

}  // namespace twin
