#include "serve/openai_reply.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "generation/engine.h"
#include "net/secret.h"
#include "serve/prompt_log_probs.h"

namespace trireme {
namespace {

int64_t Characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0U) != 0x80U; });
}

Json UsageJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

class OpenAiReply : public Listener {
 public:
  OpenAiReply(const ServedModel& model, const CompletionRequest& request, std::shared_ptr<HttpReply> reply,
              std::map<std::string, std::string> headers)
      : tokenizer_(model.tokenizer),
        model_(request.model),
        chat_(request.chat),
        stream_(request.stream),
        include_usage_(request.include_usage),
        n_(static_cast<size_t>(request.n)),
        top_(request.top),
        prompt_top_(request.prompt_top),
        reply_(std::move(reply)),
        headers_(std::move(headers)),
        id_((chat_ ? "chatcmpl-" : "cmpl-") + net::Hex(net::RandomBytes(12))),
        created_(UnixSeconds()),
        parallel_calls_(request.parallel_calls),
        scored_(request.prompt_log_probs ? request.prompts : std::vector<std::vector<int64_t>>()),
        prompts_(request.token_ids ? request.prompts : std::vector<std::vector<int64_t>>()),
        prompt_log_probs_(request.prompt_top ? request.prompts.size() : 0, Json::array({nullptr})),
        choices_(request.prompts.size() * static_cast<size_t>(request.n)) {
    for (Choice& choice : choices_) {
      if (request.tools != nullptr) choice.tools.emplace(request.tools);
    }
    for (size_t i = 0; i < choices_.size() && !request.echoed.empty(); ++i) {
      choices_[i].text = request.echoed[i / static_cast<size_t>(request.n)];
    }
  }

  bool gone() const override { return reply_->gone(); }

  void Start() override {
    if (!stream_) return;
    started_ = true;
    reply_->StartEvents(headers_);
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (chat_) Chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
      if (!chat_ && !choices_[i].text.empty()) Chunk(i, choices_[i].text, nullptr, nullptr);
    }
  }

  void Token(size_t index, const NewToken& token, const std::string& text) override {
    Choice& choice = choices_[index];
    if (!prompts_.empty()) choice.ids.push_back(token.token);
    if (!scored_.empty() && choice.tokens.empty()) AddPrompt(index, token.prompt_log_probs);
    if (prompt_top_ && !token.prompt_log_probs.empty())  // of a prompt's first choice, with its first token
      prompt_log_probs_[PromptOf(index)] = PromptLogProbs(token.prompt_log_probs, *prompt_top_, tokenizer_);
    Json log_probs = top_ ? LogProbsOf(choice, token.token, Likeliest(token.log_probs, *top_)) : Json(nullptr);
    if (choice.tools) return Give(index, choice.tools->Take(text), std::move(log_probs));
    Give(index, {.content = text, .calls = {}}, std::move(log_probs));
  }

  void End(size_t index, const std::string& reason) override {
    Choice& choice = choices_[index];
    choice.reason = reason;
    if (choice.tools) {
      Give(index, choice.tools->Finish(), nullptr);
      if (choice.tools->found() && reason == "stop") choice.reason = "tool_calls";
    }
    if (stream_) Chunk(index, chat_ ? Json::object() : Json(""), nullptr, choice.reason);
  }

  void Done(const Usage& usage) override {
    if (!stream_) return reply_->Send({.body = JsonLine(Whole(usage)), .headers = headers_});
    if (include_usage_) {
      Json last = Head();
      last["choices"] = Json::array();
      last["usage"] = UsageJson(usage);
      reply_->Event(JsonLine(last));
    }
    reply_->Event("[DONE]");
    reply_->EndEvents();
  }

  void Fail(const ApiError& error) override {
    HttpResponse response = ResponseOf(error);
    response.headers.insert(headers_.begin(), headers_.end());
    if (!started_) return reply_->Send(std::move(response));
    reply_->Event(response.body);
    reply_->EndEvents();
  }

 private:
  struct Choice {
    std::string text = {}, reason = {};
    Json log_probs = Json::array();  // of chats: an entry per token
    Json tokens = Json::array(), token_log_probs = Json::array(), top = Json::array(), offsets = Json::array();
    int64_t offset = 0;
    std::optional<ToolCallReader> tools = {};
    Json calls = Json::array();     // as answers show them
    std::vector<int64_t> ids = {};  // with the end token, if they are asked for

    void Note(const std::string& text, Json log_prob, Json likely, int64_t characters) {
      tokens.push_back(text);
      token_log_probs.push_back(std::move(log_prob));
      top.push_back(std::move(likely));
      offsets.push_back(std::exchange(offset, offset + characters));
    }
    // The first tokens of another choice.
    void TakePrompt(const Choice& other, size_t count) {
      const auto of = [count](const Json& list) {
        return Json(Json::array_t(list.begin(), list.begin() + static_cast<int64_t>(count)));
      };
      tokens = of(other.tokens);
      token_log_probs = of(other.token_log_probs);
      top = of(other.top);
      offsets = of(other.offsets);
      offset = other.offsets.at(count);  // of its first new token
    }
  };

  // Text and calls that became certain, with the log-probabilities of the token that made them so.
  void Give(size_t index, const ToolPiece& piece, Json log_probs) {
    Choice& choice = choices_[index];
    if (!stream_) choice.text += piece.content;
    if (stream_ && (!piece.content.empty() || !log_probs.is_null())) {
      Chunk(index, chat_ ? Json{{"content", piece.content}} : Json(piece.content), std::move(log_probs), nullptr);
    }
    for (const ToolCall& call : piece.calls) {
      if (!parallel_calls_ && !choice.calls.empty()) return;
      GiveCall(index, call);
    }
  }

  // Streamed in two parts: the client joins them by their index.
  void GiveCall(size_t index, const ToolCall& call) {
    Json& calls = choices_[index].calls;
    const size_t number = calls.size();
    calls.push_back({{"id", "call_" + net::Hex(net::RandomBytes(12))},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    if (!stream_) return;
    Json first = {{"index", number}};
    first.update(calls.back());
    first["function"]["arguments"] = "";
    Chunk(index, {{"tool_calls", Json::array({first})}}, nullptr, nullptr);
    const Json rest = {{"index", number}, {"function", {{"arguments", call.arguments}}}};
    Chunk(index, {{"tool_calls", Json::array({rest})}}, nullptr, nullptr);
  }

  Json Head() const {
    const char* whole = chat_ ? "chat.completion" : "text_completion";
    return {{"id", id_},
            {"object", chat_ && stream_ ? "chat.completion.chunk" : whole},
            {"created", created_},
            {"model", model_}};
  }

  void Chunk(size_t index, Json content, Json log_probs, Json reason) {
    Json chunk = Head();
    chunk["choices"] = Json::array({{{"index", index},
                                     {chat_ ? "delta" : "text", std::move(content)},
                                     {"logprobs", std::move(log_probs)},
                                     {"finish_reason", std::move(reason)}}});
    if (include_usage_) chunk["usage"] = nullptr;
    reply_->Event(JsonLine(chunk));
  }

  std::string TextOf(int64_t token) const {
    const std::vector<int32_t> ids = {static_cast<int32_t>(token)};
    return tokenizer_.Decode(ids);
  }

  Json Entry(const TokenLogProb& of) const {
    const std::string text = TextOf(of.token);
    const bool half =
        text.find("\xEF\xBF\xBD") != std::string::npos;  // part of a character: its bytes are not known here
    Json bytes = Json::array();
    for (const char byte : text) bytes.push_back(static_cast<uint8_t>(byte));
    return {
        {"token", text}, {"bytes", half ? Json(nullptr) : bytes}, {"logprob", std::max(of.log_prob, kLeastLogProb)}};
  }

  // Of this token alone, for a stream; also noted for the whole.
  Json LogProbsOf(Choice& choice, int64_t token, const std::vector<TokenLogProb>& log_probs) const {
    if (chat_) {
      Json entry = Entry(log_probs.at(0));
      entry["top_logprobs"] = Json::array();
      for (size_t i = 1; i < log_probs.size(); ++i) entry["top_logprobs"].push_back(Entry(log_probs[i]));
      if (!stream_) choice.log_probs.push_back(entry);
      return {{"content", Json::array({entry})}, {"refusal", nullptr}};
    }
    if (!stream_) {
      NoteToken(choice, log_probs);
      return nullptr;  // for the end
    }
    const std::string text = TextOf(token);
    const Json likely = Likely(log_probs);
    const float log_prob = std::max(log_probs.at(0).log_prob, kLeastLogProb);
    const int64_t offset = std::exchange(choice.offset, choice.offset + Characters(text));
    return {{"tokens", Json::array({text})},
            {"token_logprobs", Json::array({log_prob})},
            {"top_logprobs", Json::array({likely})},
            {"text_offset", Json::array({offset})}};
  }

  // Of the prompt that is repeated, before the first new token; nothing is known of its first token. The choices of a
  // prompt have it in common, and the first one is the first to get a token.
  void AddPrompt(size_t index, const std::vector<std::vector<TokenLogProb>>& log_probs) {
    const size_t choices = choices_.size() / scored_.size();
    Choice& choice = choices_[index];
    if (index % choices != 0) {
      choice.TakePrompt(choices_[index - index % choices], scored_[index / choices].size());
      return;
    }
    const std::string first = TextOf(scored_[index / choices].front());
    choice.Note(first, nullptr, nullptr, Characters(first));
    for (const std::vector<TokenLogProb>& one : log_probs) NoteToken(choice, Likeliest(one, *top_));
  }

  void NoteToken(Choice& choice, const std::vector<TokenLogProb>& log_probs) const {
    const std::string text = TextOf(log_probs.at(0).token);
    choice.Note(text, std::max(log_probs[0].log_prob, kLeastLogProb), Likely(log_probs), Characters(text));
  }

  Json Likely(const std::vector<TokenLogProb>& log_probs) const {
    Json likely = Json::object();
    for (size_t i = 1; i < log_probs.size(); ++i) {
      likely[TextOf(log_probs[i].token)] = std::max(log_probs[i].log_prob, kLeastLogProb);
    }
    return likely;
  }

  // Where vLLM has them: a chat's prompt is the answer's, that of a completion its choice's.
  void AddTokenIds(size_t index, Json& choice, Json& answer) const {
    choice["token_ids"] = choices_[index].ids;
    (chat_ ? answer : choice)["prompt_token_ids"] = prompts_[PromptOf(index)];
  }

  // Choices of a prompt lie side by side.
  size_t PromptOf(size_t index) const { return index / n_; }

  Json Whole(const Usage& usage) const {
    Json answer = Head();
    answer["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      const Choice& choice = choices_[i];
      Json one = {{"index", i}};
      Json log_probs = nullptr;
      if (chat_) {
        const bool only_calls = !choice.calls.empty() && choice.text.empty();
        one["message"] = {
            {"role", "assistant"}, {"content", only_calls ? Json(nullptr) : Json(choice.text)}, {"refusal", nullptr}};
        if (!choice.calls.empty()) one["message"]["tool_calls"] = choice.calls;
        if (top_) log_probs = {{"content", choice.log_probs}, {"refusal", nullptr}};
      } else {
        one["text"] = choice.text;
        if (top_) {
          log_probs = {{"tokens", choice.tokens},
                       {"token_logprobs", choice.token_log_probs},
                       {"top_logprobs", choice.top},
                       {"text_offset", choice.offsets}};
        }
      }
      one["logprobs"] = log_probs;
      one["finish_reason"] = choice.reason;
      if (!prompts_.empty()) AddTokenIds(i, one, answer);
      if (prompt_top_) (chat_ ? answer : one)["prompt_logprobs"] = prompt_log_probs_[PromptOf(i)];
      answer["choices"].push_back(one);
    }
    answer["usage"] = UsageJson(usage);
    return answer;
  }

  const Tokenizer& tokenizer_;
  const std::string model_;  // as asked for
  const bool chat_, stream_, include_usage_;
  const size_t n_;  // choices of a prompt
  const std::optional<int64_t> top_, prompt_top_;
  const std::shared_ptr<HttpReply> reply_;
  const std::map<std::string, std::string> headers_;
  const std::string id_;
  const int64_t created_;
  const bool parallel_calls_;
  const std::vector<std::vector<int64_t>> scored_;   // prompts, if they are repeated with log-probabilities
  const std::vector<std::vector<int64_t>> prompts_;  // if token ids are asked for
  std::vector<Json> prompt_log_probs_;               // of each prompt, as vLLM has them
  bool started_ = false;                             // events are on their way: errors are events, too
  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<Listener> MakeOpenAiReply(const ServedModel& model, const CompletionRequest& request,
                                          std::shared_ptr<HttpReply> reply,
                                          std::map<std::string, std::string> headers) {
  return std::make_unique<OpenAiReply>(model, request, std::move(reply), std::move(headers));
}

}  // namespace trireme
