// The environment's ranges, and which interface is chosen from it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "twin/hccl/failure.h"
#include "twin/hccl/membership/rootinfo.h"
#include "twin/hccl/wire/interfaces.h"

namespace twin {
namespace {

// Sets variables for one test and restores them.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) {
      setenv(name.c_str(), value.c_str(), 1);
      names_.push_back(name);
    }
  }
  ~Environment() {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }

 private:
  std::vector<std::string> names_;
};

std::string Complaint(const std::map<std::string, std::string>& variables) {
  const Environment environment(variables);
  try {
    ReadSettings();
  } catch (const HcclFailure& failure) {
    EXPECT_EQ(failure.code(), HCCL_E_PARA);
    return failure.what();
  }
  return "";
}

TEST(HcclSettings, DefaultsAreHcclsOwn) {
  const Settings settings = ReadSettings();
  EXPECT_EQ(settings.connect_timeout_s, 120);
  EXPECT_EQ(settings.exec_timeout_s, 1836);
  EXPECT_EQ(settings.buffer_mb, 200u);
  EXPECT_EQ(settings.base_port, 60000);
  EXPECT_FALSE(settings.deterministic);
  EXPECT_FALSE(settings.tcp_only);
}

TEST(HcclSettings, EachVariableReachesItsOwn) {
  const Environment environment({{"HCCL_CONNECT_TIMEOUT", "301"},
                                 {"HCCL_EXEC_TIMEOUT", "402"},
                                 {"HCCL_BUFFSIZE", "53"},
                                 {"HCCL_IF_BASE_PORT", "50123"},
                                 {"HCCL_DETERMINISTIC", "TRUE"},
                                 {"TWIN_HCCL_TRANSPORT", "tcp"}});
  const Settings settings = ReadSettings();
  EXPECT_EQ(settings.connect_timeout_s, 301);
  EXPECT_EQ(settings.exec_timeout_s, 402);
  EXPECT_EQ(settings.buffer_mb, 53u);
  EXPECT_EQ(settings.base_port, 50123);
  EXPECT_TRUE(settings.deterministic);
  EXPECT_TRUE(settings.tcp_only);
}

TEST(HcclSettings, RangesAreNamed) {
  EXPECT_EQ(Complaint({{"HCCL_CONNECT_TIMEOUT", "60"}}),
            "HCCL_CONNECT_TIMEOUT is '60'; wanted a whole number from 120 to 7200");
  EXPECT_EQ(Complaint({{"HCCL_CONNECT_TIMEOUT", "60"}, {"TWIN_SHORT_TIMEOUTS", "1"}}), "");
  EXPECT_NE(Complaint({{"HCCL_CONNECT_TIMEOUT", "7201"}, {"TWIN_SHORT_TIMEOUTS", "1"}}), "");
  EXPECT_NE(Complaint({{"HCCL_CONNECT_TIMEOUT", "200s"}}), "");
  EXPECT_NE(Complaint({{"HCCL_BUFFSIZE", "0"}}), "");
  EXPECT_NE(Complaint({{"HCCL_IF_BASE_PORT", "65535"}}), "");
  EXPECT_NE(Complaint({{"HCCL_DETERMINISTIC", "perhaps"}}), "");
  EXPECT_EQ(Complaint({{"HCCL_DETERMINISTIC", "Strict"}}), "");
  EXPECT_NE(Complaint({{"TWIN_HCCL_TRANSPORT", "udp"}}), "");
}

const std::vector<Interface> kHost{
    {"docker0", "172.17.0.1"}, {"enp1s0", "10.0.0.1"}, {"eth0", "10.0.1.1"}, {"eth1", "10.0.2.1"}, {"lo", "127.0.0.1"}};

std::string Chosen(const std::string& address, const std::string& names, std::vector<Interface> host = kHost) {
  Settings settings;
  settings.interface_address = address;
  settings.interface_names = names;
  try {
    return ChooseAddress(settings, host);
  } catch (const HcclFailure& failure) {
    return failure.what();
  }
}

TEST(HcclInterfaces, OrderOfPreference) {
  EXPECT_EQ(Chosen("", ""), "10.0.0.1");
  EXPECT_EQ(Chosen("", "", {{"docker0", "172.17.0.1"}, {"lo", "127.0.0.1"}}), "172.17.0.1");
  EXPECT_EQ(Chosen("", "", {{"lo", "127.0.0.1"}}), "127.0.0.1");
  EXPECT_EQ(Chosen("10.0.2.1", "enp"), "10.0.2.1") << "HCCL_IF_IP wins";
}

TEST(HcclInterfaces, NamesByPrefixAndWhole) {
  EXPECT_EQ(Chosen("", "eth"), "10.0.1.1");
  EXPECT_EQ(Chosen("", "eth,enp"), "10.0.0.1");
  EXPECT_EQ(Chosen("", "=eth1"), "10.0.2.1");
  EXPECT_EQ(Chosen("", "=eth"), Chosen("", "=nothing").replace(Chosen("", "=nothing").find("nothing"), 7, "eth"));
  EXPECT_EQ(Chosen("", "^enp,eth"), "172.17.0.1");
  EXPECT_EQ(Chosen("", "^=enp1s0"), "10.0.1.1");
  EXPECT_EQ(Chosen("", "lo"), "127.0.0.1");
}

TEST(HcclInterfaces, TheHostsInterfacesAreNamedIfNoneMatches) {
  EXPECT_NE(Chosen("", "wlan").find("eth0 10.0.1.1"), std::string::npos);
  EXPECT_NE(Chosen("10.9.9.9", "").find("10.9.9.9"), std::string::npos);
  EXPECT_NE(Chosen("10.9.9.9", "").find("enp1s0 10.0.0.1"), std::string::npos);
}

TEST(HcclRootInfo, SurvivesARoundTrip) {
  const std::string secret("zeros \0 and all \xff are kept as they are", 32);
  const RootInfo info{"0123456789abcdef0123456789abcdef", "name/boot/4026531840", "10.0.0.1", 60001, secret};
  HcclRootInfo bytes;
  EncodeRootInfo(info, &bytes);
  const RootInfo back = DecodeRootInfo(bytes);
  EXPECT_EQ(back.id, info.id);
  EXPECT_EQ(back.host, info.host);
  EXPECT_EQ(back.address, info.address);
  EXPECT_EQ(back.port, info.port);
  EXPECT_EQ(back.secret, secret);
  EXPECT_EQ(back.DefaultName(), "10.0.0.1%60001%0123456789abcdef");
}

}  // namespace
}  // namespace twin
