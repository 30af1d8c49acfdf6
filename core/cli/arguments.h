// The arguments of a command: values by the name of the option or positional argument in its description.
// Every described name is present, perhaps with no value; asking for an undescribed one is a bug.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme {

class Arguments {
 public:
  void Declare(const std::string& name);
  void Add(const std::string& name, const std::string& value);

  // A switch that was given has the value "".
  bool has(const std::string& name) const { return !values(name).empty(); }
  // All values, in the order given.
  const std::vector<std::string>& values(const std::string& name) const;
  // The value, or `fallback` if none was given.
  std::string value(const std::string& name, const std::string& fallback = "") const;
  // As value(), as a whole number of at least `least`; anything else is the user's error.
  int64_t integer(const std::string& name, int64_t fallback, int64_t least = 0) const;
  // As value(), as a finite number of at least `least`; anything else is the user's error.
  double number(const std::string& name, double fallback, double least = 0) const;
  // The values of --set, in order.
  const std::vector<std::string>& overrides() const { return values("set"); }
  // Whether one of them sets this key or a message that holds it.
  bool Overrides(const std::string& key) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

}  // namespace trireme
