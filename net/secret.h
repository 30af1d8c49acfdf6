// Secrets that the processes of one job share, and proofs of knowing one that do not reveal it: HMAC-SHA256
// by OpenSSL. Not encryption: anyone who reads the network reads the messages.
#pragma once

#include <string>
#include <string_view>

namespace net {

constexpr size_t kSecretBytes = 32;
constexpr size_t kProofBytes = 32;  // of SHA-256

// From the kernel; throws std::runtime_error if it provides none.
std::string RandomBytes(size_t count);
inline std::string NewSecret() { return RandomBytes(kSecretBytes); }

// HMAC-SHA256 of the message.
std::string Proof(std::string_view secret, std::string_view message);
// Constant-time comparison, so that a proof cannot be guessed byte by byte.
bool SameProof(std::string_view a, std::string_view b);

// Lower-case hexadecimal digits, for secrets that travel in text.
std::string Hex(std::string_view bytes);

}  // namespace net
