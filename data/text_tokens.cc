#include "data/text_tokens.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"

namespace trireme {
namespace {

using TokenIds = std::vector<int32_t>;

// The token that each text ends with, if the run names one.
TokenIds EndOf(const SampleTokenizer& with, const TextOptions& options) {
  const std::string& token = options.keys.end_token();
  if (token.empty()) return {};
  const TokenIds ids = with.tokenizer().Encode(token).ids;
  if (ids.size() == 1) return ids;
  throw InputError("retrieval.end_token: '", token, "' is ", ids.size(), " tokens of this tokenizer; wanted one");
}

// How many of the ids at their end are what the tokenizer puts after every text.
size_t AddedAtEnd(const TokenIds& ids, const SampleTokenizer& with) {
  const TokenIds added = with.tokenizer().Encode("", {.add_special = true}).ids;
  for (size_t count = std::min(added.size(), ids.size()); count > 0; --count) {
    const size_t before = added.size() - count;
    if (before + count <= ids.size() && std::equal(added.begin(), added.begin() + before, ids.begin()) &&
        std::equal(added.begin() + before, added.end(), ids.end() - count)) {
      return count;
    }
  }
  return 0;
}

// Cut to the longest text that a run takes, with these tokens still at the end.
TokenIds Fitted(TokenIds ids, TokenIds last, const TextOptions& options) {
  const auto most = static_cast<size_t>(options.truncate);
  if (most > 0 && ids.size() + last.size() > most) {
    if (last.size() > most) last.erase(last.begin(), last.end() - static_cast<int64_t>(most));
    ids.resize(most - last.size());
  }
  ids.insert(ids.end(), last.begin(), last.end());
  return ids;
}

TokenIds OfPlainText(const std::string& text, const std::string& ending, const SampleTokenizer& with,
                     const TextOptions& options) {
  TokenIds ids = with.tokenizer().Encode(text + ending, {.add_special = true}).ids;
  const TokenIds end = EndOf(with, options);
  TokenIds last;
  const bool cut = options.truncate > 0 && ids.size() + end.size() > static_cast<size_t>(options.truncate);
  if (cut) {
    // What a template has after the document stays whole: the model's answer follows it.
    const size_t added = AddedAtEnd(ids, with);
    last.assign(ids.end() - added, ids.end());
    ids.resize(ids.size() - added);
    if (!ending.empty()) {
      const TokenIds ends = with.tokenizer().Encode(ending).ids;
      last.insert(last.begin(), ends.begin(), ends.end());
      ids.resize(ids.size() - std::min(ids.size(), ends.size()));
    }
  }
  if (!end.empty() && (ids.empty() || ids.back() != end[0])) last.push_back(end[0]);
  return Fitted(std::move(ids), std::move(last), options);
}

TokenIds OfMessages(const Json& messages, const TextUnit& sample, const SampleTokenizer& with,
                    const TextOptions& options, bool prompts) {
  const RenderOptions render{.add_generation_prompt = prompts, .variables = sample.variables};
  return Fitted(with.tokenizer().Encode(with.chat().Render(messages, render)).ids, EndOf(with, options), options);
}

std::string Replaced(std::string text, const std::string& mark, const std::string& by) {
  const size_t at = text.find(mark);
  return at == std::string::npos ? text : text.replace(at, mark.size(), by);
}

// A query with one of its documents.
TokenIds OfPair(const Json& query, const Json& document, const TextUnit& sample, const SampleTokenizer& with,
                const TextOptions& options) {
  if (sample.is_messages()) {
    Json messages = query;
    messages.insert(messages.end(), document.begin(), document.end());
    return OfMessages(messages, sample, with, options, options.keys.generative());
  }
  const std::string& form = options.keys.pair_template();
  const std::string text = form.empty() ? "{query}\n{document}" : form;
  const size_t at = text.find("{document}");
  const std::string ending = text.substr(at + std::string("{document}").size());
  // The mark of the query may stand on either side of the document.
  const std::string before = Replaced(text.substr(0, at), "{query}", query.get<std::string>());
  return OfPlainText(before + document.get<std::string>(), Replaced(ending, "{query}", query.get<std::string>()), with,
                     options);
}

std::vector<TokenIds> DocumentsOf(const TextUnit& sample, const SampleTokenizer& with, const TextOptions& options) {
  const Records records = with.options().records;
  std::vector<TokenIds> documents;
  if (sample.is_tokens()) {
    for (const Json& text : sample.texts) documents.push_back(Fitted(text.get<TokenIds>(), {}, options));
    return documents;
  }
  if (records == Records::kRanked) {
    for (size_t i = 1; i < sample.texts.size(); ++i) {
      documents.push_back(OfPair(sample.texts[0], sample.texts[i], sample, with, options));
    }
    return documents;
  }
  for (size_t i = 0; i < sample.texts.size(); ++i) {
    const std::string& prompt = i == 0 ? options.keys.query_prompt() : options.keys.document_prompt();
    documents.push_back(sample.is_messages()
                            ? OfMessages(sample.texts[i], sample, with, options, /*prompts=*/false)
                            : OfPlainText(prompt + sample.texts[i].get<std::string>(), "", with, options));
  }
  return documents;
}

float KindOf(const std::vector<float>& values) {
  const auto positive = std::ranges::count_if(values, [](float value) { return value > 0.5F; });
  if (positive == 0) return kNonePositive;
  return positive == std::ssize(values) ? kAllPositive : kSomePositive;
}

}  // namespace

StoredRow TokeniseTexts(const TextUnit& sample, const SampleTokenizer& with, const TextOptions& options) {
  StoredRow row;
  for (const TokenIds& ids : DocumentsOf(sample, with, options)) {
    if (ids.empty()) throw InputError("has a text without any token");
    row.starts.push_back(static_cast<int32_t>(row.ids.size()));
    row.ids.insert(row.ids.end(), ids.begin(), ids.end());
  }
  row.labels.assign(row.ids.size(), static_cast<int32_t>(kNotTrained));
  const Records records = with.options().records;
  row.values = sample.values;
  const bool query = records == Records::kRanked && !sample.is_tokens();
  if (query) row.values.erase(row.values.begin());
  if (records == Records::kLabelled) {
    row.value = row.values[0];
  } else {
    row.value = KindOf({row.values.begin() + (records == Records::kTexts ? 1 : 0), row.values.end()});
  }
  return row;
}

}  // namespace trireme
