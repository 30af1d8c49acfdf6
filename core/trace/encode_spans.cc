// A rank's spans as text: {"start": ns, "lanes": […], "spans": [[lane, name, start, length, [key, value, …]],
// …]}.
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/trace/chrome_trace.h"

namespace trireme {

std::string EncodeSpans(const std::vector<TraceSpan>& spans) {
  std::map<std::string, size_t> numbers;
  Json lanes = Json::array(), list = Json::array();
  const int64_t start = spans.empty() ? 0 : spans.front().start_ns;
  for (const TraceSpan& span : spans) {
    const auto [lane, is_new] = numbers.emplace(span.lane, numbers.size());
    if (is_new) lanes.push_back(span.lane);
    Json args = Json::array();
    for (const auto& [key, value] : span.args) {
      args.push_back(key);
      args.push_back(value);
    }
    list.push_back(
        Json::array({lane->second, span.name, span.start_ns - start, span.end_ns - span.start_ns, std::move(args)}));
  }
  return JsonLine({{"start", start}, {"lanes", std::move(lanes)}, {"spans", std::move(list)}});
}

std::vector<TraceSpan> DecodeSpans(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    const auto start = json.at("start").get<int64_t>();
    std::vector<TraceSpan> spans;
    for (const Json& item : json.at("spans")) {
      TraceSpan span{.lane = json.at("lanes").at(item.at(0).get<size_t>()), .name = item.at(1)};
      span.start_ns = start + item.at(2).get<int64_t>();
      span.end_ns = span.start_ns + item.at(3).get<int64_t>();
      const Json& args = item.at(4);
      for (size_t i = 0; i < args.size(); i += 2) span.args.emplace_back(args.at(i), args.at(i + 1));
      spans.push_back(std::move(span));
    }
    return spans;
  } catch (const Json::exception& error) {
    throw RuntimeError("a rank's trace cannot be read: ", error.what());
  }
}

std::vector<RankSpans> DecodeRanks(const std::vector<std::string>& texts) {
  std::vector<RankSpans> ranks;
  for (const std::string& text : texts) ranks.push_back({static_cast<int>(ranks.size()), DecodeSpans(text)});
  return ranks;
}

}  // namespace trireme
