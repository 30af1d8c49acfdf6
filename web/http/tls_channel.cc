#include "web/http/tls_channel.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "core/base/error.h"

namespace trireme {
namespace {

std::string TlsReason() {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "a TLS error" : reason;
}

// One for all connections: reading the system's certificates takes a while.
SSL_CTX* ClientContext() {
  static SSL_CTX* const context = [] {
    SSL_CTX* made = SSL_CTX_new(TLS_client_method());
    if (made == nullptr || SSL_CTX_set_default_verify_paths(made) != 1 ||
        SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION) != 1) {
      throw RuntimeError("TLS cannot be used: ", TlsReason());
    }
    SSL_CTX_set_verify(made, SSL_VERIFY_PEER, nullptr);
    return made;
  }();
  return context;
}

bool IsNumericAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// The certificate must be for this host.
bool ExpectHost(SSL* ssl, const std::string& host) {
  if (IsNumericAddress(host)) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1;
  return SSL_set_tlsext_host_name(ssl, host.c_str()) == 1 && SSL_set1_host(ssl, host.c_str()) == 1;
}

}  // namespace

void TlsChannel::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

TlsChannel::TlsChannel(Socket& socket, const std::string& host) : socket_(socket), ssl_(SSL_new(ClientContext())) {
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  if (ssl_ == nullptr || in == nullptr || out == nullptr || !ExpectHost(ssl_.get(), host)) {
    BIO_free(in);
    BIO_free(out);
    throw RuntimeError(socket_.who(), ": TLS cannot be used: ", TlsReason());
  }
  // Bytes go through memory, not through OpenSSL's own socket calls: those would wait forever, and raise SIGPIPE.
  SSL_set_bio(ssl_.get(), in, out);
  SSL_set_connect_state(ssl_.get());
  if (Run([&] { return SSL_do_handshake(ssl_.get()); }) == 1) return;
  const long verified = SSL_get_verify_result(ssl_.get());
  const std::string why = verified == X509_V_OK ? TlsReason() : X509_verify_cert_error_string(verified);
  throw RuntimeError(socket_.who(),
                     verified == X509_V_OK ? ": no TLS connection: " : ": its certificate is not trusted: ", why,
                     verified == X509_V_OK ? "" : "; SSL_CERT_FILE may name a file with the certificates to trust");
}

template <typename Operation>
int TlsChannel::Run(const Operation& operation) {
  for (;;) {
    ERR_clear_error();
    const int result = operation();
    const int state = result > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), result);
    Flush();
    if (state != SSL_ERROR_WANT_READ) return state == SSL_ERROR_ZERO_RETURN ? 0 : result;
    char buffer[1 << 16];
    const size_t count = socket_.Receive(buffer, sizeof buffer);
    if (count == 0) return 0;
    BIO_write(SSL_get_rbio(ssl_.get()), buffer, static_cast<int>(count));
  }
}

void TlsChannel::Flush() {
  char buffer[1 << 14];
  for (int count; (count = BIO_read(SSL_get_wbio(ssl_.get()), buffer, sizeof buffer)) > 0;) {
    socket_.Send({buffer, static_cast<size_t>(count)});
  }
}

void TlsChannel::Send(std::string_view bytes) {
  constexpr size_t kMost = 1 << 20;
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, kMost);
    const int sent = Run([&] { return SSL_write(ssl_.get(), part.data(), static_cast<int>(part.size())); });
    if (sent <= 0) throw RuntimeError(socket_.who(), " closed the connection: ", TlsReason());
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

size_t TlsChannel::Receive(char* buffer, size_t size) {
  const int count = Run([&] { return SSL_read(ssl_.get(), buffer, static_cast<int>(size)); });
  if (count < 0) throw RuntimeError(socket_.who(), " closed the connection: ", TlsReason());
  return static_cast<size_t>(count);
}

}  // namespace trireme
