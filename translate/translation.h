// A run.yaml in the making: keys with values and where each came from, what was left out, what differs, what is
// refused. Keys and values are checked against the schema as they are set. Knows no other system.
#pragma once

#include <string>
#include <vector>

#include "core/config.pb.h"

namespace trireme {

class Translation {
 public:
  // The value as the other system has it: several for a list, several words of a text are joined. Replaces an earlier
  // one.
  void Set(const std::string& key, const std::vector<std::string>& values, const std::string& origin);
  void Set(const std::string& key, const std::string& value, const std::string& origin);
  void Set(const std::string& key, double value, const std::string& origin);
  // What the other system takes where the user says nothing; not if the key is set.
  void Default(const std::string& key, const std::string& value, const std::string& system);
  void Remove(const std::string& key);

  bool has(const std::string& key) const;
  std::string value(const std::string& key, const std::string& otherwise = "") const;  // of a list: YAML

  // An option that has no meaning here, or that is on always.
  void LeaveOut(const std::string& origin, const std::string& why);
  // The run differs from the other system's in a stated way.
  void Warn(const std::string& origin, const std::string& how);
  // What this program does not have.
  void Refuse(const std::string& origin, const std::string& why);

  // Moves keys that have no part in such a run to what is left out, and reads the whole as `trireme train` would; what
  // it refuses is refused here.
  void Finish();

  const std::vector<std::string>& refused() const { return refused_; }
  const std::vector<std::string>& left_out() const { return left_out_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // The file, one comment a line; what was left out and what differs at its end.
  std::string Yaml(const std::string& from) const;

 private:
  struct Entry {
    std::string key, text, origin;  // text as YAML
    bool by_default = false;
  };
  Entry* Find(const std::string& key);
  const Entry* Find(const std::string& key) const;
  std::string Keys() const;

  std::vector<Entry> entries_;
  std::vector<std::string> refused_, left_out_, warnings_;
};

}  // namespace trireme
