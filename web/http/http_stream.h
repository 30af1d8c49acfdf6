// HttpStream: a client's socket, plain or with TLS on it, as one kind of stream for Boost.Asio and Beast. Included by
// http_connection.h alone.
#pragma once

#include <utility>  // before Asio: Boost 1.74 uses std::exchange without it

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>

#include <memory>
#include <optional>
#include <string>

#include "core/base/error.h"

namespace trireme {

class HttpStream {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using executor_type = Socket::executor_type;

  // tls: nullptr: plain. Outlives the stream.
  HttpStream(Socket socket, boost::asio::ssl::context* tls) {
    if (tls == nullptr) {
      plain_.emplace(std::move(socket));
    } else {
      tls_.emplace(std::move(socket), *tls);
    }
  }

  Socket& socket() { return tls_ ? tls_->next_layer() : *plain_; }
  executor_type get_executor() { return socket().get_executor(); }
  bool tls() const { return tls_.has_value(); }

  template <typename Handler>
  void async_handshake(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler>
  auto async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Handler>(handler));
    return plain_->async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler>
  auto async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
    return plain_->async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  std::optional<Socket> plain_;
  std::optional<boost::asio::ssl::stream<Socket>> tls_;
};

// TLS 1.2 and newer with this certificate; nullptr if neither file is given. A file that cannot be used is an input
// error, also a key that is not the certificate's.
inline std::unique_ptr<boost::asio::ssl::context> OpenTls(const std::string& certificate, const std::string& key) {
  namespace ssl = boost::asio::ssl;
  if (certificate.empty() && key.empty()) return nullptr;
  if (certificate.empty() || key.empty()) {
    throw InputError("--tls-certificate and --tls-key: wanted both, or none");
  }
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 |
                       ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 | ssl::context::single_dh_use);
  // Without a terminal to ask at, a key with a pass phrase must fail and not wait.
  context->set_password_callback([](size_t, ssl::context::password_purpose) { return std::string(); });
  boost::system::error_code error;
  context->use_certificate_chain_file(certificate, error);
  if (error) {
    throw InputError("--tls-certificate ", certificate, ": ", error.message(), "; wanted a PEM file of certificates");
  }
  context->use_private_key_file(key, ssl::context::pem, error);
  if (error) {
    throw InputError("--tls-key ", key, ": ", error.message(), "; wanted a PEM file with the private key of ",
                     certificate, ", without a pass phrase");
  }
  return context;
}

}  // namespace trireme
