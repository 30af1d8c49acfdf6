#include "net/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <stdexcept>

namespace net {

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  if (getrandom(bytes.data(), count, 0) != static_cast<ssize_t>(count)) {
    throw std::runtime_error("the kernel provides no random numbers");
  }
  return bytes;
}

std::string Proof(std::string_view secret, std::string_view message) {
  // Threads may still be in a handshake when the process ends: OpenSSL's cleanup at exit would race with
  // them.
  static const int without_cleanup = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  if (without_cleanup != 1) throw std::runtime_error("OpenSSL cannot be initialised");
  std::string proof(kProofBytes, '\0');
  unsigned int bytes = 0;
  const unsigned char* made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                   reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                                   reinterpret_cast<unsigned char*>(proof.data()), &bytes);
  if (made == nullptr || bytes != kProofBytes) throw std::runtime_error("OpenSSL provides no HMAC-SHA256");
  return proof;
}

bool SameProof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string Hex(std::string_view bytes) {
  std::string digits;
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

}  // namespace net
