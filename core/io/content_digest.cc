#include "core/io/content_digest.h"

#include <openssl/evp.h>

#include <cstring>
#include <memory>

#include "core/base/error.h"

namespace trireme {

ContentDigest DigestOfContent(std::initializer_list<std::string_view> parts) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> state(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  bool good = state != nullptr && EVP_DigestInit_ex(state.get(), EVP_sha256(), nullptr) == 1;
  for (const std::string_view part : parts) {
    const auto size = static_cast<uint64_t>(part.size());
    good = good && EVP_DigestUpdate(state.get(), &size, sizeof(size)) == 1 &&
           EVP_DigestUpdate(state.get(), part.data(), part.size()) == 1;
  }
  ContentDigest digest;
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int count = 0;
  good = good && EVP_DigestFinal_ex(state.get(), bytes, &count) == 1 && count == sizeof(digest);
  TRIREME_CHECK(good) << "OpenSSL has no SHA-256";
  std::memcpy(digest.data(), bytes, sizeof(digest));
  return digest;
}

}  // namespace trireme
