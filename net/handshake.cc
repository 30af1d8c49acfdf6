#include "net/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "net/secret.h"

namespace net {
namespace {

const std::string kGreeting = "TRIREME\1";
constexpr size_t kNumberBytes = 32;
constexpr char kWelcome = '+';
constexpr char kNotWelcome = '-';

}  // namespace

Handshake::Handshake(int socket, Side side, const Key& key)
    : socket_(socket), side_(side), key_(key), own_number_(RandomBytes(kNumberBytes)) {
  Send(kGreeting + own_number_);
}

// A few bytes always fit on a fresh connection; if not, the other side misbehaves.
void Handshake::Send(const std::string& bytes) {
  ssize_t sent = -1;
  do {
    sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent != static_cast<ssize_t>(bytes.size())) state_ = State::kGone;
}

bool Handshake::Take(size_t bytes) {
  std::array<char, 128> chunk;
  while (received_.size() < bytes) {
    const ssize_t count = recv(socket_, chunk.data(), std::min(chunk.size(), bytes - received_.size()), MSG_DONTWAIT);
    if (count > 0) {
      received_.append(chunk.data(), static_cast<size_t>(count));
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else {
      const bool nothing_yet = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
      if (!nothing_yet) state_ = State::kGone;
      return false;
    }
  }
  return true;
}

Handshake::State Handshake::Advance() {
  if (state_ == State::kWaiting && their_number_.empty()) ReadGreeting();
  if (state_ == State::kWaiting && !their_number_.empty()) {
    side_ == Side::kServer ? ReadProof() : ReadVerdict();
  }
  return state_;
}

void Handshake::ReadGreeting() {
  // Checked byte by byte: a peer with another protocol may have sent all it has in fewer bytes.
  const bool whole = Take(kGreeting.size() + kNumberBytes);
  const size_t head = std::min(received_.size(), kGreeting.size());
  if (received_.compare(0, head, kGreeting, 0, head) != 0) {
    state_ = State::kRefused;
    return;
  }
  if (!whole) return;
  their_number_ = received_.substr(kGreeting.size());
  received_.clear();
  if (side_ == Side::kClient) Send(ProofOf(Side::kClient));
}

void Handshake::ReadProof() {
  if (!Take(kProofBytes)) return;
  const bool right = SameProof(received_, ProofOf(Side::kClient));
  Send(right ? kWelcome + ProofOf(Side::kServer) : std::string(1, kNotWelcome));
  if (state_ == State::kWaiting) state_ = right ? State::kProven : State::kRefused;
}

void Handshake::ReadVerdict() {
  if (!Take(1)) return;
  if (received_[0] != kWelcome) {
    state_ = State::kRefused;
    return;
  }
  if (!Take(1 + kProofBytes)) return;
  state_ = SameProof(received_.substr(1), ProofOf(Side::kServer)) ? State::kProven : State::kRefused;
}

std::string Handshake::ProofOf(Side prover) const {
  const bool server_here = side_ == Side::kServer;
  std::string message = prover == Side::kServer ? "server" : "client";
  message += '\0' + key_.purpose + '\0';
  message += server_here ? own_number_ + their_number_ : their_number_ + own_number_;
  return Proof(key_.secret, message);
}

Handshake::State ProveAsClient(int socket, const Key& key, std::chrono::steady_clock::time_point deadline) {
  Handshake handshake(socket, Handshake::Side::kClient, key);
  while (handshake.Advance() == Handshake::State::kWaiting) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) break;
    pollfd readable{socket, POLLIN, 0};
    poll(&readable, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
  }
  return handshake.state();
}

}  // namespace net
