// Reads the identity of host and process from /proc.
#include "twin/hccl/membership/identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include "net/secret.h"
#include "twin/hccl/failure.h"

namespace twin {
namespace {

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) throw HcclFailure(HCCL_E_OPEN_FILE_FAILURE, std::string(path) + " cannot be read");
  return line;
}

std::string Inode(const char* path) {
  struct stat status{};
  if (stat(path, &status) != 0) {
    throw HcclFailure(HCCL_E_OPEN_FILE_FAILURE, std::string(path) + " cannot be read");
  }
  return std::to_string(status.st_ino);
}

// Field 22 of /proc/self/stat. The second field is the program's name, in parentheses, and may contain
// spaces.
std::string StartTime() {
  const std::string line = FirstLine("/proc/self/stat");
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  return field;
}

}  // namespace

std::string HostIdentity() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return std::string(name.data()) + "/" + FirstLine("/proc/sys/kernel/random/boot_id") + "/" +
         Inode("/proc/self/ns/net");
}

std::string ProcessIdentity() {
  return std::to_string(getpid()) + "." + StartTime() + "." + Inode("/proc/self/ns/pid");
}

std::string RandomId() { return net::Hex(net::RandomBytes(16)); }

}  // namespace twin
