// What the environment says about hubs, by the variables of huggingface_hub and of ModelScope: where they keep files,
// which server they ask, with which token, and whether they may. No torch.
#pragma once

#include <filesystem>
#include <string>

#include "web/http/http_address.h"

namespace trireme {

// HF_HUB_CACHE, HF_HOME/hub, or below XDG_CACHE_HOME or ~/.cache.
std::filesystem::path HuggingFaceCache();
// MODELSCOPE_CACHE, or ~/.cache/modelscope.
std::filesystem::path ModelScopeCache();
bool PrefersModelScope();  // USE_MODELSCOPE_HUB

// Why nothing is downloaded: "HF_HUB_OFFLINE is set". Empty: it is.
std::string WhyNoDownloads();

struct HubServer {
  HttpTarget endpoint;         // HF_ENDPOINT, or https://huggingface.co; its path has no slash at its end
  std::string token;           // HF_TOKEN, or of the file of `hf auth login`; empty: none
  double answer_seconds = 10;  // HF_HUB_ETAG_TIMEOUT
  double wait_seconds = 10;    // HF_HUB_DOWNLOAD_TIMEOUT
};
HubServer ReadHubServer();
// MODELSCOPE_ENDPOINT, or MODELSCOPE_DOMAIN, or https://www.modelscope.cn; MODELSCOPE_API_TOKEN; the same waits.
HubServer ReadModelScopeServer();

}  // namespace trireme
