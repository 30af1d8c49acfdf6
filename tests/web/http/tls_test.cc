// HTTP over TLS: a certificate made here, a client by OpenSSL itself; files that cannot be used are refused before the
// server listens, and clients that speak plain HTTP or nonsense are dropped.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "tests/web/http/client.h"
#include "web/http/http.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A key and a certificate for it, signed by itself.
void WriteCertificate(const fs::path& certificate, const fs::path& key) {
  EVP_PKEY* pair = EVP_EC_gen("P-256");
  X509* made = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  X509_gmtime_adj(X509_getm_notBefore(made), 0);
  X509_gmtime_adj(X509_getm_notAfter(made), 3600);
  X509_set_pubkey(made, pair);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(made, X509_get_subject_name(made));
  X509_sign(made, pair, EVP_sha256());
  FILE* file = fopen(certificate.c_str(), "w");
  PEM_write_X509(file, made);
  fclose(file);
  file = fopen(key.c_str(), "w");
  PEM_write_PrivateKey(file, pair, nullptr, nullptr, 0, nullptr, nullptr);
  fclose(file);
  X509_free(made);
  EVP_PKEY_free(pair);
}

class Tls : public testing::Test {
 protected:
  Tls() : folder_(fs::path(testing::TempDir()) / ("trireme_tls_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    WriteCertificate(folder_ / "a.pem", folder_ / "a.key");
    WriteCertificate(folder_ / "b.pem", folder_ / "b.key");
    std::ofstream(folder_ / "nonsense") << "nonsense\n";
  }
  ~Tls() override { fs::remove_all(folder_); }

  std::unique_ptr<HttpServer> Serve(const std::string& certificate, const std::string& key) const {
    const auto path = [&](const std::string& name) { return name.empty() ? "" : (folder_ / name).string(); };
    return std::make_unique<HttpServer>(
        HttpAddress{.host = "127.0.0.1", .tls_certificate = path(certificate), .tls_key = path(key)},
        HttpLimits{.header_seconds = 1}, [](const HttpRequest&) { return 0; },
        [](HttpRequest request, std::shared_ptr<HttpReply> reply) {
          if (request.path() == "/echo") return reply->Send({.type = "text/plain", .body = request.body});
          reply->StartEvents({});
          for (int i = 0; i < 3; ++i) reply->Event(std::string(20000, 'x'));
          reply->EndEvents();
        });
  }

  const fs::path folder_;
};

class TlsClient {
 public:
  explicit TlsClient(uint16_t port, long newest = 0) : client_(port), context_(SSL_CTX_new(TLS_client_method())) {
    if (newest != 0) SSL_CTX_set_max_proto_version(context_, newest);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, client_.handle());
    connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  bool connected() const { return connected_; }
  void Send(const std::string& data) { SSL_write(ssl_, data.data(), static_cast<int>(data.size())); }
  std::string ReadUntil(const std::string& end) {
    std::string read;
    char part[4096];
    while (read.find(end) == std::string::npos) {
      const int count = SSL_read(ssl_, part, sizeof(part));
      if (count <= 0) break;
      read.append(part, static_cast<size_t>(count));
    }
    return read;
  }

 private:
  Client client_;
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
};

TEST_F(Tls, ServesRequestsAndStreams) {
  const auto server = Serve("a.pem", "a.key");
  TlsClient client(server->port());
  ASSERT_TRUE(client.connected());
  for (int i = 0; i < 3; ++i) {
    const std::string body(5000, static_cast<char>('a' + i));
    client.Send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" + body);
    EXPECT_NE(client.ReadUntil(body).find("200 OK"), std::string::npos);
  }
  client.Send("POST /events HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  const std::string events = client.ReadUntil("0\r\n\r\n");
  EXPECT_EQ(std::count(events.begin(), events.end(), 'x'), 60000 + 1);  // one in text/event-stream's header line
}

TEST_F(Tls, DropsWhoSpeaksSomethingElse) {
  const auto server = Serve("a.pem", "a.key");
  Client plain(server->port());
  plain.Send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(plain.ReadAll().find("HTTP/1.1"), std::string::npos);
  Client silent(server->port());
  EXPECT_EQ(silent.ReadAll(), "");  // the handshake has a deadline
  EXPECT_FALSE(TlsClient(server->port(), TLS1_1_VERSION).connected());
  EXPECT_TRUE(TlsClient(server->port()).connected());
}

TEST_F(Tls, RefusesFilesThatDoNotFit) {
  EXPECT_THROW(Serve("a.pem", ""), Error);
  EXPECT_THROW(Serve("", "a.key"), Error);
  EXPECT_THROW(Serve("missing", "a.key"), Error);
  EXPECT_THROW(Serve("nonsense", "a.key"), Error);
  EXPECT_THROW(Serve("a.pem", "nonsense"), Error);
  EXPECT_THROW(Serve("a.pem", "b.key"), Error);
  EXPECT_NO_THROW(Serve("b.pem", "b.key"));
}

}  // namespace
}  // namespace trireme
