// The start of a connection: both sides prove that they know the job's secret, each over a nonce of
// the other, before either sends anything else. Never blocks, and never reads beyond its own messages.
//   both    "TRIREME" and a version, 32 random bytes
//   client  proof over (client, purpose, both numbers)
//   server  '+' and its own proof over (server, purpose, both numbers), or '-' alone
#pragma once

#include <chrono>
#include <string>

namespace net {

// What both sides must know. `purpose` prevents a proof for one door from opening another of the same job.
struct Key {
  std::string secret;
  std::string purpose;
};

class Handshake {
 public:
  enum class Side { kServer, kClient };
  enum class State {
    kWaiting,  // for the other side's bytes
    kProven,
    kRefused,  // the other side has another secret or speaks another protocol
    kGone,     // it closed the connection
  };

  // Sends the first message. The caller owns the socket, blocking or not.
  Handshake(int socket, Side side, const Key& key);

  // Reads what has arrived and answers it.
  State Advance();
  State state() const { return state_; }

 private:
  bool Take(size_t bytes);  // true once `received_` holds that many
  void Send(const std::string& bytes);
  void ReadGreeting();
  void ReadProof();    // the server
  void ReadVerdict();  // the client
  std::string ProofOf(Side side) const;

  int socket_;
  Side side_;
  Key key_;
  std::string own_number_;
  std::string their_number_;  // empty until their greeting
  std::string received_;
  State state_ = State::kWaiting;
};

// A client's whole handshake; kWaiting on timeout.
Handshake::State ProveAsClient(int socket, const Key& key, std::chrono::steady_clock::time_point deadline);

}  // namespace net
