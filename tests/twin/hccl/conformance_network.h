// Two hosts on one machine: two network namespaces connected by a veth pair (the cable), each with a second
// interface that leads nowhere and sorts first by name, so that a wrong choice of interface cannot work.
// Needs root.
#pragma once

#include <cstdint>
#include <string>

namespace conformance {

class TwoHosts {
 public:
  TwoHosts();   // check ready()
  ~TwoHosts();  // removes everything again
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool ready() const { return problem_.empty(); }
  const std::string& problem() const { return problem_; }  // the command that failed
  static std::string address(int host) { return "10.97.0." + std::to_string(host + 1); }

  void Enter(int host) const;  // moves this (single-threaded) process there
  static constexpr const char* kCable = "jd0";
  static constexpr const char* kDecoy = "dcy0";

 private:
  void Run(const std::string& command);
  std::string NamespaceName(int host) const { return prefix_ + (host == 0 ? "a" : "b"); }

  std::string prefix_;
  std::string problem_;
};

// Bytes that this process's host has sent over the cable so far.
uint64_t SentBytes();

}  // namespace conformance
