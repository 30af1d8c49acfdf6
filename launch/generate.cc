// `trireme generate`: a model continues text, conversations or rows of tokens, alone or over many ranks.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/tensor/torch_errors.h"
#include "data/record_fields.h"
#include "data/rows.h"
#include "generation/beam_generator.h"
#include "generation/generator.h"
#include "generation/text/completion.h"
#include "generation/text/prompts.h"
#include "launch/generate_beams.h"
#include "launch/generate_chat.h"
#include "launch/generate_images.h"
#include "launch/generate_tools.h"
#include "launch/layout.h"
#include "launch/model_source.h"
#include "models/families.h"
#include "session/session.h"
#include "text/template_values.h"

namespace trireme {
namespace {

// The request on the command line, read and checked before any weights.
struct Request {
  std::optional<Tokenizer> tokenizer = {};
  std::optional<ChatTemplate> chat = {};
  std::vector<Tokens> prompts = {};
  std::vector<PromptImages> images = {};      // of each prompt
  std::vector<std::string> chat_images = {};  // of a chat's first message
  bool talks = false;                         // a chat: no prompts yet
  bool lines = false;                         // one JSON line per prompt
  bool stream = false;
  CompletionRules rules = {};
  GenerationOptions options = {};
  std::optional<BeamOptions> beams = {};
  int64_t most = 256;   // new tokens
  int64_t choices = 1;  // completions of each prompt
  std::optional<int64_t> positions = {};
  Json variables = Json::object();  // for the chat template
  Json tools = nullptr;             // for conversations without any; null: none
  ToolForm tool_form = nullptr;     // of calls in completions; none if no conversation has tools

  const Tokenizer* text() const { return tokenizer ? &*tokenizer : nullptr; }
  void Add(SeenPrompt prompt) {
    prompts.push_back(std::move(prompt.tokens));
    images.push_back(std::move(prompt.images));
  }
};

// The layout is the run's; tuning is reduced to the adapter that was found.
Config GenerateConfig(const Arguments& arguments, Job& job) {
  Config config = ConfigOf(arguments, job);
  UseModel(FindModel(arguments, config, job), config);
  if (arguments.has("system")) config.mutable_data()->set_system(arguments.value("system"));
  return config;
}

double ShareOf(const Arguments& arguments, const std::string& name) {
  const double share = arguments.number(name, 0);
  if (share > 1) throw InputError("--", name, " ", arguments.value(name), ": wanted a share from 0 to 1");
  return share;
}

double RepetitionPenalty(const Arguments& arguments) {
  const double penalty = arguments.number("repetition-penalty", 1);
  if (penalty == 0) throw InputError("--repetition-penalty 0: wanted a factor above 0; 1 changes nothing");
  return penalty;
}

// As the field's servers take them: negative ones favour tokens that were generated.
double SubtractedPenalty(const Arguments& arguments, const std::string& name) {
  const double penalty = arguments.number(name, 0, -2);
  if (penalty > 2) throw InputError("--", name, " ", arguments.value(name), ": wanted a number from -2 to 2");
  return penalty;
}

GenerationOptions OptionsOf(const Arguments& arguments) {
  const double top_p = arguments.number("top-p", 1);
  if (top_p == 0 || top_p > 1)
    throw InputError("--top-p ", arguments.value("top-p"), ": wanted a probability above 0 and up to 1");
  return {.sampling = {.temperature = arguments.number("temperature", 0),
                       .top_k = arguments.integer("top-k", 0),
                       .top_p = top_p,
                       .min_p = ShareOf(arguments, "min-p"),
                       .presence_penalty = SubtractedPenalty(arguments, "presence-penalty"),
                       .frequency_penalty = SubtractedPenalty(arguments, "frequency-penalty"),
                       .repetition_penalty = RepetitionPenalty(arguments),
                       .seed = static_cast<uint64_t>(arguments.integer("seed", 42))},
          .batch = arguments.integer("batch", 8, 1),
          .max_batched_tokens = arguments.integer("max-batched-tokens", 2048, 1),
          .max_total_tokens = arguments.integer("max-total-tokens", 0, 1)};
}

void RefuseSeveralPrompts(const Arguments& arguments) {
  std::vector<std::string> given;
  for (const char* name : {"prompt", "messages", "rows", "chat"}) {
    if (arguments.has(name)) given.push_back(Concat("--", name));
  }
  if (given.size() > 1) throw InputError(Join(given), " were given; keep one of them");
}

void ReadStops(const Arguments& arguments, Request& request) {
  request.rules.stops = arguments.values("stop");
  for (const std::string& stop : request.rules.stops) {
    if (stop.empty()) throw InputError("--stop: the text is empty; write the text to stop at");
  }
}

// These options feed the chat template, which plain text and rows of tokens bypass.
void RefuseWithoutTemplate(const Arguments& arguments, const Request& request) {
  if (request.chat) return;
  for (const char* name : {"system", "template-value", "tools"}) {
    if (!arguments.has(name)) continue;
    throw InputError("--", name, " is for conversations; use --messages FILE or --chat: other prompts are used ",
                     "verbatim");
  }
}

// As data.system does for training: for conversations without a system message.
Json WithSystem(Json messages, const std::string& system) {
  if (system.empty() || messages.front().value("role", "") == "system") return messages;
  messages.insert(messages.begin(), Json{{"role", "system"}, {"content", system}});
  return messages;
}

void UseChat(const Config& config, Request& request) {
  request.chat.emplace(
      ChatTemplate::Of(*request.tokenizer, config.data().template_(), TemplateValuesOf(config.data())));
  if (const auto end = TurnEnd(*request.tokenizer, *request.chat)) request.rules.ends.insert(*end);
}

void UseTools(Request& request) {
  request.tool_form = ToolFormOf(request.chat->source());
  request.rules.keep_special = request.tool_form != nullptr;  // marks of calls may be special tokens
}

void ReadMessages(const std::string& path, const Config& config, const GenerateImages& images, Request& request) {
  UseChat(config, request);
  const Conversations conversations = ReadConversations(path, images.sees());
  for (const Conversation& one : conversations.each) {
    RenderOptions options{.tools = one.tools.is_null() ? request.tools : one.tools, .variables = one.variables};
    if (!options.tools.is_null()) UseTools(request);
    options.variables.update(request.variables);
    Tokens prompt =
        ChatPrompt(*request.tokenizer, *request.chat, WithSystem(one.messages, config.data().system()), options);
    const std::string where = conversations.several ? Concat(path, ": row ", request.prompts.size() + 1) : path;
    request.Add(images.Read(std::move(prompt), one.images, where));
  }
  request.lines = conversations.several;
}

void ReadText(const Arguments& arguments, const Config& config, const GenerateImages& images, Job& job,
              Request& request) {
  StandardInput input{.terminal = arguments.has("chat"), .text = arguments.value("prompt")};
  if (!arguments.has("chat") && !arguments.has("prompt")) input = ReadStandardInput(job);
  request.talks = input.terminal;
  if (request.talks) {
    UseChat(config, request);
    if (!request.tools.is_null()) UseTools(request);
    return;
  }
  if (input.text.empty()) {
    throw InputError(
        "no prompt; use --prompt TEXT, --messages FILE.json, --rows ROWS.jsonl or --chat, or pass a text "
        "on standard input");
  }
  request.Add(images.Read(TextPrompt(*request.tokenizer, input.text), {}, "the prompt"));
}

void CheckChoices(const Request& request) {
  if (request.choices == 1) return;
  const std::string asked = Concat("--n ", request.choices);
  if (request.talks) throw InputError(asked, " in a chat, where each turn has one answer; give a prompt");
  if (request.options.sampling.temperature == 0)
    throw InputError(asked, " without --temperature: the most likely completions are all the same; set it above 0");
}

// Neighbours, which share the prompt's keys and values. Each row has random numbers of its own.
void RepeatPrompts(Request& request) {
  if (request.choices == 1) return;
  std::vector<Tokens> prompts;
  std::vector<PromptImages> images;
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    for (int64_t choice = 0; choice < request.choices; ++choice) {
      prompts.push_back(request.prompts[i]);
      images.push_back(request.images[i]);
    }
  }
  request.prompts = std::move(prompts);
  request.images = std::move(images);
  request.lines = true;
}

std::string PromptFile(const Arguments& arguments) {
  return arguments.value(arguments.has("rows") ? "rows" : "messages");
}

Request RequestOf(const Arguments& arguments, const Config& config, const LayerGraph& graph,
                  const GenerateImages& images, Job& job) {
  RefuseSeveralPrompts(arguments);
  Request request{.stream = arguments.has("stream"),
                  .options = OptionsOf(arguments),
                  .beams = BeamOptionsOf(arguments),
                  .most = arguments.integer("max-new-tokens", 256, 1),
                  .choices = arguments.integer("n", 1, 1)};
  ReadStops(arguments, request);
  request.variables = ParseTemplateValues("--template-value", arguments.values("template-value"));
  if (arguments.has("tools")) request.tools = ReadToolsFile(arguments.value("tools"));
  const std::string& model = config.model().path();
  const bool rows = arguments.has("rows");
  if (!rows || !request.rules.stops.empty()) request.tokenizer.emplace(model);
  request.rules.ends = EndTokens(model, request.text());
  request.positions = MostPositions(model);
  if (rows) {
    request.lines = true;
    for (SeenPrompt& prompt : images.ReadRows(arguments.value("rows"), VocabularyOf(graph)))
      request.Add(std::move(prompt));
  } else if (arguments.has("messages")) {
    ReadMessages(arguments.value("messages"), config, images, request);
  } else {
    ReadText(arguments, config, images, job, request);
  }
  RefuseWithoutTemplate(arguments, request);
  CheckChoices(request);
  request.chat_images = ChatImages(arguments, request.talks, images.sees());
  images.CheckFiles(request.chat_images);
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    CheckPrompt(request.prompts[i], request.positions,
                request.lines ? Concat(PromptFile(arguments), ": row ", i + 1) : "the prompt");
  }
  return request;
}

std::string LineOf(const Completion& completion, size_t row, const Request& request) {
  Json line = Json::object();
  if (request.choices > 1) line["choice"] = static_cast<int64_t>(row) % request.choices;
  if (request.tokenizer) line["text"] = completion.text();
  if (const Json calls = ToolCallsIn(request.tool_form, completion.text()); !calls.empty()) line["tool_calls"] = calls;
  line["output_ids"] = completion.ids();
  line["finish_reason"] = completion.reason();
  return JsonLine(line);
}

int64_t MostNewTokens(const Request& request, const Tokens& prompt) {
  return request.positions ? std::min(request.most, *request.positions - std::ssize(prompt)) : request.most;
}

// Before any work: a row that does not fit into the whole cache could never end.
void RefuseTooLong(const Request& request) {
  const int64_t most = request.options.max_total_tokens;
  for (size_t i = 0; most > 0 && i < request.prompts.size(); ++i) {
    const int64_t needed = std::ssize(request.prompts[i]) + MostNewTokens(request, request.prompts[i]);
    if (needed <= most) continue;
    throw InputError("--max-total-tokens ", most, ": row ", i + 1, " may take ", needed,
                     "; allow that many, or fewer --max-new-tokens");
  }
}

std::vector<Completion> EmptyCompletions(const Request& request) {
  std::vector<Completion> completions;
  for (const Tokens& prompt : request.prompts) {
    completions.emplace_back(request.rules, MostNewTokens(request, prompt), request.text());
  }
  return completions;
}

// Lines come in the order of the prompts, each as soon as it and those before it are done.
void Write(Generator& generator, const Request& request, bool speaks) {
  std::vector<Completion> completions = EmptyCompletions(request);
  size_t printed = 0;
  generator.Run(
      request.prompts, request.options,
      [&](size_t row, int64_t token) {
        const bool goes_on = completions[row].Take(token);
        if (!speaks) return goes_on;
        if (!request.lines) {
          if (request.stream || !goes_on) std::cout << completions[row].NewText() << std::flush;
          return goes_on;
        }
        for (; printed < completions.size() && completions[printed].ended(); ++printed) {
          std::cout << LineOf(completions[printed], printed, request) << "\n" << std::flush;
        }
        return goes_on;
      },
      request.images);
  if (speaks && !request.lines) std::cout << "\n";
}

// The best hypothesis of each prompt, when all are done.
GenerationTimes WriteBest(Session& session, const Request& request, bool speaks) {
  std::vector<BeamOptions> options;
  for (const Tokens& prompt : request.prompts) {
    options.push_back(*request.beams);
    options.back().ends = request.rules.ends;
    options.back().most = MostNewTokens(request, prompt);
  }
  GenerationTimes times;
  const std::vector<Tokens> found =
      SearchBeams(session, request.prompts, options, request.options, times, request.images);
  std::vector<Completion> completions = EmptyCompletions(request);
  for (size_t i = 0; i < found.size(); ++i) {
    for (const int64_t token : found[i]) completions[i].Take(token);
    if (speaks)
      std::cout << (request.lines ? LineOf(completions[i], i, request) : completions[i].NewText()) << "\n"
                << std::flush;
  }
  return times;
}

std::string Rate(int64_t tokens, double seconds) {
  std::ostringstream text;
  text << std::fixed << tokens << " tokens in " << std::setprecision(2) << seconds << " s";
  if (tokens > 0 && seconds > 0) {
    text << " (" << std::setprecision(1) << static_cast<double>(tokens) / seconds << " per second)";
  }
  return text.str();
}

void Generate(const Arguments& arguments, Job& job) {
  const Config config = GenerateConfig(arguments, job);
  RefuseUngeneratable(config);
  PlannedModel model = PlanModel(config, job.world());
  const GenerateImages images(config, model.graph);
  Request request = RequestOf(arguments, config, model.graph, images, job);
  RefuseTooLong(request);
  RepeatPrompts(request);
  if (request.beams) {
    request.beams->ends = request.rules.ends;
    CheckBeams(*request.beams, VocabularyOf(model.graph));
    if (request.talks)
      throw InputError("--beams ", request.beams->beams,
                       " in a chat: beam search has no text to show on the way; give a prompt");
  }

  Session session(config, std::move(model), job, {.trained = false});
  session.TakeWeights();
  Generator generator(session);
  if (request.talks) {
    request.options.keep_cache = true;
    Chat(generator,
         {.tokenizer = *request.tokenizer,
          .chat = *request.chat,
          .rules = request.rules,
          .options = request.options,
          .most = request.most,
          .positions = request.positions,
          .system = config.data().system(),
          .variables = request.variables,
          .tools = request.tools,
          .tool_form = request.tool_form,
          .images = images,
          .first_images = request.chat_images},
         job);
  } else if (!request.beams) {
    Write(generator, request, job.rank() == 0);
  }
  const GenerationTimes times = request.beams ? WriteBest(session, request, job.rank() == 0) : generator.times();
  TRIREME_LOG(INFO) << "read " << Rate(times.prompt_tokens, times.prompt_seconds) << ", wrote "
                    << Rate(times.new_tokens, times.new_seconds);
}

constexpr const char* kGenerateSummary =
    "Generates with a model: continues a text, answers conversations, or completes rows of tokens. Alone or "
    "under\n"
    "mpirun; the layout is that of RUN.yaml or --set, data-parallel ranks split the rows. Without a "
    "prompt it\n"
    "chats on a terminal, and elsewhere reads the text from stdin. Only new text is printed; --rows, "
    "and a\n"
    "--messages file of several conversations, print one JSON line each, with output_ids: the new tokens.";

std::vector<Option> GenerateOptions() {
  std::vector<Option> options = {
      {.name = "model",
       .value_name = "DIR",
       .help = "a Hugging Face model directory, or a checkpoint-N; by default the base that --adapters "
               "names, or the result of the run of RUN.yaml: its final/, or else its newest checkpoint"},
      {.name = "adapters",
       .value_name = "DIR",
       .help = "a PEFT LoRA adapter, or a checkpoint-N of one, applied on top of the model's weights"},
      {.name = "prompt", .value_name = "TEXT", .help = "a text to continue verbatim: no chat template is applied"},
      {.name = "messages",
       .value_name = "FILE",
       .help = "conversations to answer with the chat template: a list of {\"role\", \"content\"}, an object "
               "with such \"messages\" (and \"tools\", \"system\"), a list of either, or one per "
               "line (.jsonl)"},
      {.name = "system",
       .value_name = "TEXT",
       .help = "system message for conversations without one; overrides data.system"},
      {.name = "template-value",
       .value_name = "NAME=VALUE",
       .help = "a value for the chat template, such as enable_thinking=false",
       .repeatable = true},
      {.name = "tools",
       .value_name = "FILE",
       .help = "functions that the model may call, for conversations without any: a JSON list as in OpenAI's API, or "
               "an object with such "
               "\"tools\""},
      {.name = "rows", .value_name = "ROWS.jsonl", .help = "one {\"input_ids\": […]} per line to continue"},
      {.name = "image",
       .value_name = "FILE",
       .help = "an image for a chat's first message, of a model that sees; /image FILE in the chat adds one to the "
               "next line",
       .repeatable = true},
      {.name = "chat", .help = "a chat on standard input and output, even if these are not a terminal"},
      {.name = "max-new-tokens", .value_name = "N", .help = "most new tokens per row; by default 256"},
      {.name = "n",
       .value_name = "N",
       .help = "so many completions of each prompt, each a JSON line, those of a prompt together; with --temperature"},
      {.name = "temperature", .value_name = "T", .help = "sample tokens at this temperature; by default 0: greedy"},
      {.name = "top-k", .value_name = "K", .help = "sample from the K most likely tokens only; by default 0: from all"},
      {.name = "top-p",
       .value_name = "P",
       .help = "sample from the most likely tokens that reach this total probability; by default 1: from all"},
      {.name = "min-p",
       .value_name = "P",
       .help = "sample only from tokens with at least this share of the likeliest one's probability; by default 0"},
      {.name = "repetition-penalty",
       .value_name = "F",
       .help = "divides the positive logits of tokens that prompt or completion have, and multiplies the negative; by "
               "default 1"},
      {.name = "presence-penalty",
       .value_name = "F",
       .help = "subtracted from the logit of each token that was generated, from -2 to 2; by default 0"},
      {.name = "frequency-penalty",
       .value_name = "F",
       .help = "subtracted once for each time that the token was generated, from -2 to 2; by default 0"},
      {.name = "seed", .value_name = "N", .help = "seed for sampling; by default 42"},
      {.name = "stop",
       .value_name = "TEXT",
       .help = "stop at this text, which is not printed; the model's end tokens always stop",
       .repeatable = true},
      {.name = "stream", .help = "print text as it is generated; JSON lines are always printed as rows end"},
      {.name = "batch",
       .value_name = "N",
       .help =
           "rows decoded together on each data-parallel rank; by default 8. A row that ends makes room for the next"},
      {.name = "max-batched-tokens",
       .value_name = "N",
       .help = "most tokens computed in one step on each data-parallel rank; longer prompts take several steps; by "
               "default 2048"},
      {.name = "max-total-tokens",
       .value_name = "N",
       .help = "most tokens in the KV cache of each data-parallel rank: rows that find no room wait, or are computed "
               "again; by default as many as the rows need"}};
  const std::vector<Option> beams = BeamCommandOptions();
  options.insert(options.end(), beams.begin(), beams.end());
  return options;
}

}  // namespace

Command GenerateCommand() {
  return {.name = "generate",
          .summary = kGenerateSummary,
          .options = GenerateOptions(),
          .positionals = {{.name = kRunFile,
                           .help = "the run whose layout and, without --model, whose result is used; by default all "
                                   "keys have their defaults",
                           .required = false}},
          .takes_config = true,
          .run = [](const Arguments& arguments, Job& job) { WithTorchErrors([&] { Generate(arguments, job); }); }};
}

}  // namespace trireme
