// Which proxy a request takes. That they are spoken to as huggingface_hub does is in tests/parity/hub_test.py.
#include "web/http/http_proxy.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr const char* kVariables[] = {"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY",
                                      "all_proxy",  "ALL_PROXY",  "no_proxy",    "NO_PROXY"};

class HttpProxyTest : public testing::Test {
 protected:
  HttpProxyTest() {
    for (const char* name : kVariables) unsetenv(name);
  }
  ~HttpProxyTest() override {
    for (const char* name : kVariables) unsetenv(name);
  }
  static std::string Place(const std::string& address) {
    const auto proxy = ProxyFor(*ParseAddress(address));
    return proxy ? proxy->target.host + ":" + proxy->target.port : "";
  }
};

TEST_F(HttpProxyTest, FollowsTheScheme) {
  EXPECT_EQ(Place("https://hub/"), "");
  setenv("HTTPS_PROXY", "http://a:1", 1);
  setenv("http_proxy", "b:2", 1);
  EXPECT_EQ(Place("https://hub/"), "a:1");
  EXPECT_EQ(Place("http://hub/"), "b:2");
  setenv("https_proxy", "http://c:3/", 1);
  EXPECT_EQ(Place("https://hub/"), "c:3");
  setenv("https_proxy", "", 1);  // switches it off
  EXPECT_EQ(Place("https://hub/"), "");
  setenv("ALL_PROXY", "http://d", 1);
  EXPECT_EQ(Place("https://hub/"), "d:80");
}

TEST_F(HttpProxyTest, LeavesOutTheHostsOfNoProxy) {
  const HttpTarget target = *ParseAddress("https://cdn.Hub.example:8443/");
  for (const char* list :
       {"*", "hub.example", ".hub.example", "a, cdn.hub.example", "b,hub.example:8443", "HUB.EXAMPLE"}) {
    EXPECT_TRUE(GoesDirectly(target, list)) << list;
  }
  for (const char* list : {"", ",", "ub.example", "hub.example:443", "cdn.hub", "other.example", "."}) {
    EXPECT_FALSE(GoesDirectly(target, list)) << list;
  }
  setenv("all_proxy", "http://a:1", 1);
  setenv("NO_PROXY", "hub.example", 1);
  EXPECT_EQ(Place("https://cdn.hub.example/"), "");
  EXPECT_EQ(Place("https://hub.example.com/"), "a:1");
}

TEST_F(HttpProxyTest, HasCredentials) {
  setenv("http_proxy", "http://name:p%40ss@a:1", 1);
  const auto proxy = ProxyFor(*ParseAddress("http://hub/"));
  ASSERT_TRUE(proxy);
  EXPECT_EQ(proxy->target.host, "a");
  EXPECT_EQ(proxy->credentials, "name:p@ss");
  EXPECT_EQ(proxy->AuthorizationLine(), "Proxy-Authorization: Basic bmFtZTpwQHNz\r\n");
}

TEST_F(HttpProxyTest, RefusesOtherKinds) {
  for (const char* address : {"socks5://a:1", "https://a:1", "http://name:secret@a:b", "http://"}) {
    setenv("http_proxy", address, 1);
    try {
      ProxyFor(*ParseAddress("http://hub/"));
      FAIL() << address;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("http_proxy names '"), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace trireme
