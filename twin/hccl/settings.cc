// Reads HCCL's environment variables; see settings.h for their meaning.
#include "twin/hccl/settings.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "twin/hccl/failure.h"

namespace twin {
namespace {

std::optional<std::string> Variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::string(text);
}

[[noreturn]] void Refuse(const char* name, const std::string& value, const std::string& wanted) {
  throw HcclFailure(HCCL_E_PARA, std::string(name) + " is '" + value + "'; wanted " + wanted);
}

uint32_t Number(const char* name, uint32_t preset, uint32_t low, uint32_t high) {
  const std::optional<std::string> text = Variable(name);
  if (!text) return preset;
  uint32_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stopped != end || value < low || value > high) {
    Refuse(name, *text, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

bool Deterministic() {
  const std::string text = Variable("HCCL_DETERMINISTIC").value_or("false");
  for (const char* word : {"false", "true", "strict"}) {
    if (strcasecmp(text.c_str(), word) == 0) return word[0] != 'f';
  }
  Refuse("HCCL_DETERMINISTIC", text, "false, true or strict");
}

bool TcpOnly() {
  const std::optional<std::string> text = Variable("TWIN_HCCL_TRANSPORT");
  if (text && *text != "tcp") Refuse("TWIN_HCCL_TRANSPORT", *text, "tcp, or leave the variable unset");
  return text.has_value();
}

}  // namespace

Settings ReadSettings() {
  // HCCL rejects timeouts below two minutes; tests of timeouts cannot wait that long.
  const bool short_timeouts = Variable("TWIN_SHORT_TIMEOUTS").value_or("0") == "1";
  Settings settings;
  settings.connect_timeout_s = Number("HCCL_CONNECT_TIMEOUT", 120, short_timeouts ? 1 : 120, 7200);
  settings.exec_timeout_s = Number("HCCL_EXEC_TIMEOUT", 1836, 0, 2147483647);
  settings.buffer_mb = Number("HCCL_BUFFSIZE", 200, 1, 1u << 20);
  settings.deterministic = Deterministic();
  settings.interface_address = Variable("HCCL_IF_IP").value_or("");
  settings.interface_names = Variable("HCCL_SOCKET_IFNAME").value_or("");
  settings.base_port = static_cast<uint16_t>(Number("HCCL_IF_BASE_PORT", 60000, 1024, 65536 - kPortCount));
  settings.one_host = Variable("TWIN_HCCL_ONE_HOST").value_or("0") == "1";
  settings.tcp_only = TcpOnly();
  return settings;
}

}  // namespace twin
