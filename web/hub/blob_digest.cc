#include "web/hub/blob_digest.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "net/fd.h"
#include "net/secret.h"

namespace trireme {
namespace {

class BlobHash {
 public:
  BlobHash(uint64_t size, size_t digits) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    const bool sha256 = digits == 64;
    TRIREME_CHECK(EVP_DigestInit_ex(context_.get(), sha256 ? EVP_sha256() : EVP_sha1(), nullptr) == 1);
    if (!sha256) Add(Concat("blob ", size, '\0'));
  }
  void Add(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  std::string Hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), digest, &size);
    return net::Hex({reinterpret_cast<const char*>(digest), size});
  }

 private:
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

std::string BlobDigest(const std::filesystem::path& file, size_t digits) {
  const net::Fd input(OpenInput(file));
  BlobHash hash(std::filesystem::file_size(file), digits);
  std::vector<char> buffer(size_t{1} << 20);
  for (ssize_t count; (count = read(input.get(), buffer.data(), buffer.size())) != 0;) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw RuntimeError(file.string(), ": cannot be read: ", std::strerror(errno));
    hash.Add({buffer.data(), static_cast<size_t>(count)});
  }
  return hash.Hex();
}

std::string TextDigest(std::string_view bytes, size_t digits) {
  BlobHash hash(bytes.size(), digits);
  hash.Add(bytes);
  return hash.Hex();
}

}  // namespace trireme
