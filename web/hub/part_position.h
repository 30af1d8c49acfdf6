// Where the bytes of an answer belong in a file of which only the rest was asked for. No torch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "web/http/http_message.h"
#include "web/hub/hub_source.h"

namespace trireme {

class PartPosition {
 public:
  // `offset`: of the first byte that was asked for.
  PartPosition(std::string who, int64_t offset) : who_(std::move(who)), offset_(offset) {}

  // The next bytes of the answer, to `sink` with their position. Throws a runtime error if the answer is of others.
  void Take(const HttpHead& head, std::string_view bytes, const HubSource::Sink& sink);

 private:
  const std::string who_;
  const int64_t offset_;
  int64_t position_ = -1;
};

}  // namespace trireme
