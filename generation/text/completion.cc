#include "generation/text/completion.h"

#include <algorithm>
#include <string_view>

namespace trireme {

Completion::Completion(const CompletionRules& rules, int64_t most, const Tokenizer* tokenizer)
    : rules_(rules), most_(most) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer, /*skip_special=*/!rules.keep_special);
}

bool Completion::Take(int64_t token) {
  ids_.push_back(token);
  const bool end = rules_.ends.contains(token);
  if (decoder_ && !end) AddText(decoder_->Add(static_cast<int32_t>(token)));
  if (ended()) return false;
  if (!end && static_cast<int64_t>(ids_.size()) < most_) return true;
  if (decoder_) AddText(decoder_->Finish());
  if (!ended()) reason_ = end ? "stop" : "length";
  return false;
}

void Completion::AddText(const std::string& fresh) {
  const size_t old = text_.size();
  text_ += fresh;
  size_t end = std::string::npos;
  for (const std::string& stop : rules_.stops) {
    const size_t from = old - std::min(old, stop.size() - 1);  // it may have begun in earlier text
    end = std::min(end, text_.find(stop, from));
  }
  if (end == std::string::npos) return;
  text_.resize(end);
  reason_ = "stop";
}

// Everything except the longest suffix of the text that is a prefix of a stop string.
size_t Completion::Certain() const {
  if (ended()) return text_.size();
  size_t held = 0;
  for (const std::string& stop : rules_.stops) {
    for (size_t size = std::min(stop.size() - 1, text_.size()); size > held; --size) {
      if (text_.ends_with(std::string_view(stop).substr(0, size))) held = size;
    }
  }
  return text_.size() - held;
}

std::string Completion::NewText() {
  const size_t certain = std::max(Certain(), given_);
  std::string fresh = text_.substr(given_, certain - given_);
  given_ = certain;
  return fresh;
}

}  // namespace trireme
