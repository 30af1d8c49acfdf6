// TlsChannel: TLS 1.2 and newer over a socket, by OpenSSL, as a client. The server's certificate must be valid for the
// host's name, by the certificates that the system trusts, or those of SSL_CERT_FILE and SSL_CERT_DIR. No torch.
#pragma once

#include <memory>
#include <string>

#include "web/http/byte_channel.h"

struct ssl_st;

namespace trireme {

class TlsChannel : public ByteChannel {
 public:
  // Shakes hands; a runtime error if that fails. The socket outlives it.
  TlsChannel(Socket& socket, const std::string& host);

  void Send(std::string_view bytes) override;
  size_t Receive(char* buffer, size_t size) override;

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  // Repeats an operation of OpenSSL while it needs bytes from the server; its result, or 0 where the server has closed.
  template <typename Operation>
  int Run(const Operation& operation);
  void Flush();

  Socket& socket_;
  std::unique_ptr<ssl_st, Free> ssl_;
};

}  // namespace trireme
