// The door on a Unix socket: the listener's own user is admitted, another user is not, even with the secret.
// Only root can become another user: without root the program checks the first half and ctest reports it as
// skipped.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <string>

#include "net/door.h"
#include "net/secret.h"

namespace net {
namespace {

constexpr int kSkipped = 77;  // ctest reports it as skipped, not as passed
constexpr uid_t kNobody = 65534;

class DoorUsers : public testing::Test {
 protected:
  void SetUp() override {
    const std::string text = "net-door-test-" + Hex(RandomBytes(8));
    name_.sun_family = AF_UNIX;
    text.copy(name_.sun_path + 1, text.size());
    bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    ASSERT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&name_), bytes_), 0);
    ASSERT_EQ(listen(listener_.get(), 8), 0);
  }

  // The exit status of a client process of that user, which knows the secret: 0 admitted, 1 refused, else an
  // error.
  int ClientOf(uid_t user) {
    const pid_t child = fork();
    if (child == 0) _exit(Client(user));
    Door door(listener_.get(), key_);
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      door.Admit();
      usleep(5000);
    }
    return WEXITSTATUS(status);
  }

 private:
  int Client(uid_t user) const {
    if (setresuid(user, user, user) != 0) return 9;
    const Fd client(::socket(AF_UNIX, SOCK_STREAM, 0));
    if (connect(client.get(), reinterpret_cast<const sockaddr*>(&name_), bytes_) != 0) return 8;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    return ProveAsClient(client.get(), key_, deadline) == Handshake::State::kProven ? 0 : 1;
  }

  const Key key_{NewSecret(), "door"};
  const Fd listener_{::socket(AF_UNIX, SOCK_STREAM, 0)};
  sockaddr_un name_{};
  socklen_t bytes_ = 0;
};

TEST_F(DoorUsers, TheListenersOwnUserIsAdmitted) { EXPECT_EQ(ClientOf(geteuid()), 0); }

TEST_F(DoorUsers, AnotherUserIsRefusedEvenWithTheSecret) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user; run this test as root";
  EXPECT_EQ(ClientOf(kNobody), 1);
}

}  // namespace
}  // namespace net

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  return failed == 0 && testing::UnitTest::GetInstance()->skipped_test_count() > 0 ? net::kSkipped : failed;
}
