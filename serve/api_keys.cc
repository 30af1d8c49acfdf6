#include "serve/api_keys.h"

#include <cstdlib>
#include <sstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "net/secret.h"

namespace trireme {
namespace {

std::string WithoutBlanks(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t\r"), last = line.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : line.substr(first, last - first + 1);
}

std::vector<std::string> KeysOf(const std::string& file, const std::string& option) {
  std::vector<std::string> keys;
  if (file.empty()) return keys;
  std::istringstream lines(ReadTextFile(file));
  std::string line;
  while (std::getline(lines, line)) {
    const std::string key = WithoutBlanks(line);
    if (!key.empty() && !key.starts_with('#')) keys.push_back(key);
  }
  if (keys.empty()) throw InputError(option, " ", file, ": has no key; write one per line");
  return keys;
}

}  // namespace

ApiKeys ApiKeys::ReadFile(const std::string& file, const std::string& option) { return ApiKeys(KeysOf(file, option)); }

ApiKeys ApiKeys::Read(const std::string& file) {
  std::vector<std::string> keys = KeysOf(file, "--api-key-file");
  const char* variable = std::getenv("TRIREME_API_KEY");
  if (variable != nullptr && !IsBlank(variable)) keys.push_back(WithoutBlanks(variable));
  return ApiKeys(keys);
}

std::string ApiKeys::NewKey() { return net::Hex(net::RandomBytes(24)); }

ApiKeys::ApiKeys(const std::vector<std::string>& keys) : secret_(net::NewSecret()) {
  for (const std::string& key : keys) proofs_.push_back(net::Proof(secret_, key));
}

// All keys are compared, whichever is right.
std::optional<std::string> ApiKeys::TenantOf(const std::string& authorization) const {
  if (proofs_.empty()) return "";
  const std::string word = "Bearer ";
  const std::string given =
      net::Proof(secret_, authorization.starts_with(word) ? authorization.substr(word.size()) : "");
  bool right = false;
  for (const std::string& proof : proofs_) right = net::SameProof(proof, given) || right;
  return right ? std::optional(net::Hex(given)) : std::nullopt;
}

}  // namespace trireme
