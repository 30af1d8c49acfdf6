// The first words on a connection: both sides prove that they know the job's secret, each over a fresh number of
// the other, before either says anything else. Never waits by itself, and never reads beyond its own messages.
//   both    "TRIREME" and a version, 32 random bytes
//   client  proof over (client, purpose, both numbers)
//   server  '+' and its own proof over (server, purpose, both numbers), or '-' and nothing
#pragma once

#include <chrono>
#include <string>

namespace net {

// What both sides must know. `purpose` keeps a proof for one door from opening another of the same job.
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
    kRefused,  // the other side knows another secret, or speaks another language
    kGone,     // it closed the connection
  };

  // Sends the first message. The socket stays the caller's; it may block or not.
  Handshake(int socket, Side side, const Key& key);

  // Takes in what has come and answers it.
  State Advance();
  State state() const { return state_; }

 private:
  bool Take(size_t bytes);  // true once `received_` holds so many
  void Send(const std::string& bytes);
  void ReadGreeting();
  void ReadProof();    // the server
  void ReadVerdict();  // the client
  std::string ProofOf(Side side) const;

  int socket_;
  Side side_;
  Key key_;
  std::string own_number_;
  std::string their_number_;  // empty until they have greeted
  std::string received_;
  State state_ = State::kWaiting;
};

// A client's whole handshake; kWaiting where the time was not enough.
Handshake::State ProveAsClient(int socket, const Key& key, std::chrono::steady_clock::time_point deadline);

}  // namespace net
