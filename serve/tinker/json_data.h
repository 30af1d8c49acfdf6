// The data of a forward_backward in JSON, as clients up to 0.24 send them: of 0.16 without the fields that nobody set.
#pragma once

#include "core/base/json.h"
#include "serve/tinker/raw_data.h"

namespace trireme::tinker {

// {data, loss_fn, loss_fn_config?}; `name`: of the field that it is, for errors.
RawLoss ReadLossJson(const Json& input, const std::string& name);
// {chunks: [{type?, tokens}]} to tokens.
std::vector<int64_t> ReadTokens(const Json& model_input, const std::string& name);

}  // namespace trireme::tinker
