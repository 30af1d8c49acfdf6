// Secrets that the processes of one job share, and proofs of knowing one that do not give it away: HMAC-SHA256
// by OpenSSL. Not encryption: who reads the network reads the messages.
#pragma once

#include <string>
#include <string_view>

namespace net {

constexpr size_t kSecretBytes = 32;
constexpr size_t kProofBytes = 32;  // of SHA-256

// From the kernel; throws std::runtime_error where it gives none.
std::string RandomBytes(size_t count);
inline std::string NewSecret() { return RandomBytes(kSecretBytes); }

// HMAC-SHA256 of the message.
std::string Proof(std::string_view secret, std::string_view message);
// Takes as long for a near miss as for any other, so that nobody can guess a proof byte by byte.
bool SameProof(std::string_view a, std::string_view b);

// Lower-case hexadecimal digits, for secrets that travel in text.
std::string Hex(std::string_view bytes);

}  // namespace net
