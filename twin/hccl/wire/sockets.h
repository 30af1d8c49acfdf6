// Stream sockets for membership: RAII descriptors, listening, connecting, and whole frames with a deadline.
// All descriptors are close-on-exec. Nothing here knows what a frame means.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "net/fd.h"
#include "twin/hccl/wire/frame.h"

namespace twin {

using Deadline = std::chrono::steady_clock::time_point;
Deadline After(double seconds);

using net::Fd;

// Listens on `address` (IPv4) at the first free port of kPortCount from `base_port`, otherwise at any free
// port: many ranks share a host here, while a host with real devices has only a few. Sets `port` to the
// chosen one.
Fd ListenTcp(const std::string& address, uint16_t base_port, uint16_t* port);
Fd ConnectTcp(const std::string& address, uint16_t port, Deadline deadline);

// In the abstract namespace: no file to clean up, and only this network namespace sees the name.
Fd ListenUnix(const std::string& name);
Fd ConnectUnix(const std::string& name);

// Detects a dead host within 5 seconds, and sends small messages at once.
void WatchTcp(int socket);
void MakeNonBlocking(int socket);

// True if one of the descriptors is readable or closed; false at the deadline.
bool WaitReadable(const std::vector<int>& sockets, Deadline deadline);

// Sends a whole frame; `files` travel with it (Unix sockets only). Works for blocking and non-blocking
// sockets.
void SendFrame(int socket, const Frame& frame, Deadline deadline, const std::vector<int>& files = {});

// Assembles frames from a socket as bytes arrive, for both blocking and event-driven readers.
class FrameBuffer {
 public:
  // Reads what is available without waiting; false at the end of the connection (closed or broken).
  bool Fill(int socket);
  // The next whole frame, if one has arrived. Throws if the bytes are not a frame.
  std::optional<Frame> Next();
  std::vector<Fd> TakeFiles() { return std::move(files_); }

 private:
  std::string bytes_;
  std::vector<Fd> files_;
};

// Waits for one frame. Throws HCCL_E_TIMEOUT at the deadline and HCCL_E_REMOTE when the connection closes;
// `whom` names the other side in both messages.
Frame ReceiveFrame(int socket, FrameBuffer& buffer, Deadline deadline, const std::string& whom);

}  // namespace twin
