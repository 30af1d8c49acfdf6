// The layout of HcclRootInfo: a fixed header, then fixed-size text fields, then zeros.
#include "twin/hccl/membership/rootinfo.h"

#include <array>
#include <cstdio>
#include <cstring>

#include "net/secret.h"
#include "twin/hccl/failure.h"

namespace twin {
namespace {

constexpr uint64_t kRootInfoMagic = 0x314f464e49545754;
constexpr uint32_t kVersion = 2;

struct Layout {
  uint64_t magic;
  uint32_t version;
  uint32_t port;
  char id[40];
  char address[64];
  char host[512];
  char secret[net::kSecretBytes];
};
static_assert(sizeof(Layout) <= sizeof(HcclRootInfo));

template <size_t N>
void Store(char (&field)[N], const std::string& text) {
  std::snprintf(field, N, "%s", text.c_str());
}

template <size_t N>
std::string Load(const char (&field)[N]) {
  return std::string(field, strnlen(field, N));
}

}  // namespace

std::string RootInfo::DefaultName() const { return address + "%" + std::to_string(port) + "%" + id.substr(0, 16); }

void EncodeRootInfo(const RootInfo& info, HcclRootInfo* bytes) {
  Layout layout{};
  layout.magic = kRootInfoMagic;
  layout.version = kVersion;
  layout.port = info.port;
  Store(layout.id, info.id);
  Store(layout.address, info.address);
  Store(layout.host, info.host);
  info.secret.copy(layout.secret, sizeof(layout.secret));
  std::memset(bytes, 0, sizeof(*bytes));
  std::memcpy(bytes, &layout, sizeof(layout));
}

RootInfo DecodeRootInfo(const HcclRootInfo& bytes) {
  Layout layout;
  std::memcpy(&layout, &bytes, sizeof(layout));
  if (layout.magic != kRootInfoMagic || layout.version != kVersion) {
    std::array<char, 96> found{};
    std::snprintf(found.data(), found.size(), "magic %#llx version %u; wanted magic %#llx version %u",
                  static_cast<unsigned long long>(layout.magic), layout.version,
                  static_cast<unsigned long long>(kRootInfoMagic), kVersion);
    throw HcclFailure(HCCL_E_PARA, std::string("the root info did not come from HcclGetRootInfo of this library: ") +
                                       found.data() + "; broadcast all 4108 bytes from the root");
  }
  return {Load(layout.id), Load(layout.host), Load(layout.address), static_cast<uint16_t>(layout.port),
          std::string(layout.secret, sizeof(layout.secret))};
}

}  // namespace twin
