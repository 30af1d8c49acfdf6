// The variables of huggingface_hub: which server, which token, and whether anything is downloaded.
#include "web/hub/hub_settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"

namespace trireme {
namespace {

class HubSettings : public testing::Test {
 protected:
  HubSettings() : folder_(std::filesystem::temp_directory_path() / ("trireme-settings-" + std::to_string(getpid()))) {
    for (const char* variable : {"HF_ENDPOINT", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH",
                                 "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
                                 "USE_MODELSCOPE_HUB", "HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT"}) {
      unsetenv(variable);
    }
    std::filesystem::create_directories(folder_);
    setenv("HF_HOME", folder_.c_str(), 1);
  }
  ~HubSettings() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(HubSettings, Endpoint) {
  EXPECT_EQ(ReadHubServer().endpoint.text(), "https://huggingface.co");
  setenv("HF_ENDPOINT", "http://mirror:8080/hub/", 1);
  EXPECT_EQ(ReadHubServer().endpoint.text(), "http://mirror:8080/hub");
  for (const char* wrong : {"mirror", "ftp://mirror", "http://a b"}) {
    setenv("HF_ENDPOINT", wrong, 1);
    EXPECT_THROW(ReadHubServer(), Error) << wrong;
  }
}

TEST_F(HubSettings, Token) {
  EXPECT_EQ(ReadHubServer().token, "");
  std::ofstream(folder_ / "token") << "of-a-file\n";
  EXPECT_EQ(ReadHubServer().token, "of-a-file");
  setenv("HF_TOKEN", " of-a-variable ", 1);
  EXPECT_EQ(ReadHubServer().token, "of-a-variable");
  setenv("HF_TOKEN", "two\r\nlines", 1);
  EXPECT_THROW(ReadHubServer(), Error);
  setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", 1);
  EXPECT_EQ(ReadHubServer().token, "");
}

TEST_F(HubSettings, Offline) {
  EXPECT_EQ(WhyNoDownloads(), "");
  for (const char* yes : {"1", "True", "ON", "yes"}) {
    setenv("HF_HUB_OFFLINE", yes, 1);
    EXPECT_EQ(WhyNoDownloads(), "HF_HUB_OFFLINE is set") << yes;
  }
  for (const char* no : {"0", "false", "", "2"}) {
    setenv("HF_HUB_OFFLINE", no, 1);
    EXPECT_EQ(WhyNoDownloads(), "") << no;
  }
  setenv("TRANSFORMERS_OFFLINE", "1", 1);
  EXPECT_EQ(WhyNoDownloads(), "TRANSFORMERS_OFFLINE is set");
}

TEST_F(HubSettings, Seconds) {
  EXPECT_EQ(ReadHubServer().wait_seconds, 10);
  setenv("HF_HUB_DOWNLOAD_TIMEOUT", "2.5", 1);
  EXPECT_EQ(ReadHubServer().wait_seconds, 2.5);
  for (const char* wrong : {"x", "-1", "0", "1s"}) {
    setenv("HF_HUB_DOWNLOAD_TIMEOUT", wrong, 1);
    EXPECT_THROW(ReadHubServer(), Error) << wrong;
  }
}

}  // namespace
}  // namespace trireme
