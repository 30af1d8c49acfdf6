// Traces of all ranks as one file that chrome://tracing and Perfetto open, and the text encoding in which a
// rank's spans travel to the rank that writes it:
//
//   const auto texts = job.GatherStrings(EncodeSpans(trace.Take()));
//   if (job.rank() == 0) WriteChromeTrace(path, DecodeRanks(texts));
#pragma once

#include <string>
#include <vector>

#include "core/trace/trace.h"

namespace trireme {

struct RankSpans {
  int rank = 0;
  std::vector<TraceSpan> spans;
};

// Compact: lanes by number, times relative to the first. Invalid UTF-8 becomes U+FFFD.
std::string EncodeSpans(const std::vector<TraceSpan>& spans);
std::vector<TraceSpan> DecodeSpans(const std::string& text);
// One text per rank, in rank order.
std::vector<RankSpans> DecodeRanks(const std::vector<std::string>& texts);

// A process for each rank, a thread for each of its lanes, in the order in which they first appear; time
// begins with the earliest span of all. The file is whole or absent.
void WriteChromeTrace(const std::string& path, const std::vector<RankSpans>& ranks);

}  // namespace trireme
