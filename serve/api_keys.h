// ApiKeys: who may use the server. Keys come from a file or the environment, never from the command line,
// which other users of the machine can read; they are compared in constant time. Those that are given are nowhere
// printed.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

class ApiKeys {
 public:
  // One key per line of the file, if there is one; and the environment's TRIREME_API_KEY. None: everybody
  // may.
  static ApiKeys Read(const std::string& file);
  // Of the file alone; an empty name: none. `option` names it in errors.
  static ApiKeys ReadFile(const std::string& file, const std::string& option);
  // A key that nobody knows yet: for a command that needs one, was given none, and prints it.
  static std::string NewKey();
  ApiKeys() : ApiKeys(std::vector<std::string>()) {}
  explicit ApiKeys(const std::vector<std::string>& keys);

  bool empty() const { return proofs_.empty(); }
  // The tenant of an Authorization header, the same text for the same key; nothing: it is not allowed.
  std::optional<std::string> TenantOf(const std::string& authorization) const;

 private:
  std::string secret_;
  std::vector<std::string> proofs_;
};

}  // namespace trireme
