// A connection that fails leaves no descriptor behind.
#include "web/http/byte_channel.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

#include "core/base/error.h"

namespace trireme {
namespace {

int64_t OpenDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

TEST(Socket, ClosesWhereItGivesUp) {
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(server, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(server, 1), 0);
  ASSERT_EQ(getsockname(server, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto target = ParseAddress("http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/");
  const int64_t before = OpenDescriptors();
  EXPECT_THROW(Socket(*target, {.who = "a server", .gives_up = [] { return true; }}), Error);
  EXPECT_EQ(OpenDescriptors(), before);
  close(server);
}

}  // namespace
}  // namespace trireme
