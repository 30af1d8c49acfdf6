#include "serve/text_routes.h"

#include <utility>

#include "serve/text_replies.h"

namespace trireme {

// A request whose texts are in the queue.
class TextRoutes::Waiting : public TextListener {
 public:
  Waiting(Call call, Reply reply) : call_(std::move(call)), reply_(std::move(reply)) {}
  bool gone() const override { return call_.reply->gone(); }
  void Done(const std::vector<float>& numbers) override { Send(call_, {.body = JsonLine(reply_(numbers))}); }
  void Fail(const ApiError& error) override { Send(call_, ResponseOf(error)); }

 private:
  const Call call_;
  const Reply reply_;
};

TextRoutes::TextRoutes(TextQueue& queue, const ServedTexts& served, const Callers& callers)
    : ApiRoutes(callers), queue_(queue), served_(served) {
  AddAll();
}

TextRoutes::~TextRoutes() { StopReading(); }

void TextRoutes::AddAll() {
  switch (served_.tokenizer.options().records) {
    case Records::kRanked:
      AddOwn("/rerank", [this](const Call& call, const Json& body) -> std::optional<HttpResponse> {
        RerankRequest request = ReadRerank(body, served_);
        std::vector<TextTokens> texts = request.texts;
        Submit(call, std::move(texts), [request](const auto& numbers) { return RerankReply(request, numbers); });
        return std::nullopt;
      });
      break;
    case Records::kLabelled:
      AddOwn("/classify", [this](const Call& call, const Json& body) -> std::optional<HttpResponse> {
        ClassifyRequest request = ReadClassify(body, served_);
        std::vector<TextTokens> texts = request.texts;
        Submit(call, std::move(texts),
               [this, request](const auto& numbers) { return ClassifyReply(request, served_, numbers); });
        return std::nullopt;
      });
      break;
    default:
      AddOwn("/embeddings", [this](const Call& call, const Json& body) -> std::optional<HttpResponse> {
        EmbeddingRequest request = ReadEmbedding(body, served_);
        std::vector<TextTokens> texts = request.texts;
        Submit(call, std::move(texts),
               [this, request](const auto& numbers) { return EmbeddingReply(request, served_, numbers); });
        return std::nullopt;
      });
  }
  Add("GET", "/models", [this](const Call&) { return Models(""); });
  Add("GET", "/models/{name...}", [this](const Call& call) { return Models(call.values.at("name")); });
  AddServerPaths(queue_.metrics(), served_.name);
  AddNeverOffered();
}

void TextRoutes::AddOwn(const std::string& path, RespondToBody respond) {
  const std::string gives = path == "/embeddings" ? "vectors of texts"
                            : path == "/rerank"   ? "scores of documents for a query"
                                                  : "labels of texts";
  AddBody(path, std::move(respond));
  for (const char* other : {"/embeddings", "/rerank", "/classify", "/score", "/pooling", "/moderations", "/completions",
                            "/chat/completions", "/responses", "/tokenize"}) {
    if (other != path) AddNotOffered(other, "this server's model gives " + gives + ": use /v1" + path);
  }
}

HttpResponse TextRoutes::Models(const std::string& name) const {
  const Json own = ModelEntry(served_.name, served_.name, nullptr, served_.created, served_.context);
  if (name.empty()) return {.body = JsonLine({{"object", "list"}, {"data", Json::array({own})}})};
  if (name != served_.name) throw TextModelNotFound(name, served_);
  return {.body = JsonLine(own)};
}

void TextRoutes::Submit(const Call& call, std::vector<TextTokens> texts, Reply reply) {
  queue_.Submit({.texts = std::move(texts), .listener = std::make_unique<Waiting>(call, std::move(reply))});
}

}  // namespace trireme
