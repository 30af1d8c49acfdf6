// What commands that listen share: the address, the names by which clients may call it, the port.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/cli/command.h"

namespace trireme {

bool IsLoopback(const std::string& host);

// On loopback only names of loopback, so that a page of another site cannot reach the server by a name of its own;
// elsewhere those of --allowed-host, or any.
std::set<std::string> AllowedHosts(const Arguments& arguments, const std::string& host);

// For what starts or stops something on behalf of whoever asks: without a key nobody but this machine may reach it.
// `option`: that allows it; `could`: what a stranger could do.
void RefuseWithoutKeys(const std::string& option, const std::string& could, const std::string& host);

uint16_t PortOf(const Arguments& arguments, int64_t fallback);

}  // namespace trireme
