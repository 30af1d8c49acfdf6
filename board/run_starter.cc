#include "board/run_starter.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <string_view>

#include "board/run_files.h"
#include "core/base/error.h"
#include "core/base/problems.h"
#include "core/base/process.h"
#include "core/base/text.h"
#include "core/config/former_names.h"
#include "core/config/load.h"
#include "core/config/print.h"
#include "core/config/scalar.h"
#include "core/config/schema.h"
#include "web/http/http.h"

extern char** environ;

namespace trireme {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Message;

constexpr size_t kMostStarted = 64;
constexpr int64_t kMostRanks = 4096, kTextShown = 8 << 10;

bool IsPlainName(const std::string& name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !name.empty() && name.size() <= 64 && name[0] != '.' && name[0] != '-' &&
         name.find_first_not_of(kLetters) == std::string::npos;
}

// What a person typed as the value of --set: text needs no quotes in a form, a list no brackets.
std::string AsYaml(const std::string& key, const std::string& text) {
  const FieldDescriptor* field = FindField(key);
  if (field == nullptr) return text;
  if (field->is_repeated()) return text.starts_with('[') ? text : "[" + text + "]";
  return field->cpp_type() == FieldDescriptor::CPPTYPE_STRING ? QuotedIfNeeded(text) : text;
}

// Only the keys that were given; the others have their defaults.
std::string YamlOf(const Message& section, const std::set<std::string>& given, const std::string& prefix,
                   const std::string& indent) {
  std::string text;
  for (int i = 0; i < section.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *section.GetDescriptor()->field(i);
    const std::string key = prefix + field.name();
    if (IsSection(field)) {
      const Message& inner = section.GetReflection()->GetMessage(section, &field);
      const std::string inside = YamlOf(inner, given, key + ".", indent + "  ");
      if (!inside.empty()) text += Concat(indent, field.name(), ":\n", inside);
    } else if (given.contains(key)) {
      text += Concat(indent, field.name(), ": ", ValueText(section, field), "\n");
    }
  }
  return text;
}

// As mpirun and the run would be started from a shell: nothing of a launcher that started the board, and no key of it.
std::vector<std::string> CleanEnvironment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool drop = text.starts_with("OMPI_") || text.starts_with("PMIX_") || text.starts_with("PMI_") ||
                      text.starts_with("TRIREME_API_KEY=");
    if (!drop) variables.emplace_back(text);
  }
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A file that did not exist; throws if it does.
OpenedFile CreateNew(const fs::path& path) {
  OpenedFile file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.is_open()) {
    throw ApiError{.status = 409, .message = Concat(path.string(), " cannot be created: ", std::strerror(errno))};
  }
  return file;
}

void WriteAll(const OpenedFile& file, const std::string& text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(file.fd(), text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw ApiError{.status = 500, .message = Concat("cannot write: ", std::strerror(errno)), .type = "server_error"};
    }
    written += static_cast<size_t>(count);
  }
}

// In a session of its own, so that Ctrl-C for the board is not for the run.
pid_t Spawn(std::vector<std::string> words, const OpenedFile& text) {
  std::vector<std::string> variables = CleanEnvironment();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, text.fd(), 1);
  posix_spawn_file_actions_adddup2(&files, text.fd(), 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  pid_t id = 0;
  const int error =
      posix_spawnp(&id, words[0].c_str(), &files, &attributes, Pointers(words).data(), Pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    throw ApiError{.status = 500,
                   .message = Concat(words[0], " cannot be started: ", std::strerror(error)),
                   .type = "server_error"};
  }
  return id;
}

}  // namespace

Json RunStarter::FolderNames() const {
  Json names = Json::array();
  for (const fs::path& folder : folders_) names.push_back(folder.string());
  return names;
}

// Where it goes: a directory that the board was given, and a name that is free in it.
void RunStarter::PlanFiles(const Json& form, Plan& plan) const {
  const auto text_of = [&](const char* name) {
    return form.contains(name) && form[name].is_string() ? form[name].get<std::string>() : std::string();
  };
  const std::string folder = text_of("folder"), name = text_of("name");
  const auto is_it = [&](const fs::path& each) { return each.string() == folder; };
  if (folders_.empty()) {
    plan.problems.push_back("start the board with a directory that holds runs, too: new runs go there");
  } else if (std::none_of(folders_.begin(), folders_.end(), is_it)) {
    plan.problems.push_back("folder: wanted one of those that the board was given");
  }
  if (!IsPlainName(name)) plan.problems.push_back("name: wanted 1 to 64 letters, digits, '.', '_' or '-'");
  plan.output = fs::path(folder) / name;
  plan.yaml_file = plan.output.string() + ".yaml";
  plan.text_file = plan.output.string() + ".txt";
  if (!plan.problems.empty()) return;
  for (const fs::path& path : {plan.output, plan.yaml_file, plan.text_file}) {
    std::error_code error;
    if (fs::symlink_status(path, error).type() != fs::file_type::not_found)
      plan.problems.push_back(path.string() + " already exists; choose another name");
  }
}

void RunStarter::PlanYaml(const Json& form, Plan& plan) const {
  std::vector<std::string> overrides;
  std::set<std::string> given = {"run.output"};
  const Json set = form.value("set", Json::object());
  if (!set.is_object()) throw ApiError{.message = "set: wanted keys with text", .param = "set"};
  for (const auto& [key, value] : set.items()) {
    if (!value.is_string()) throw ApiError{.message = key.substr(0, 100) + ": wanted text", .param = "set"};
    if (key == "run.output") {
      plan.problems.push_back("run.output: it follows from folder and name");
      continue;
    }
    overrides.push_back(key + "=" + AsYaml(PresentName(key), value.get<std::string>()));
    given.insert(PresentName(key));
  }
  overrides.push_back("run.output=" + QuotedIfNeeded(plan.output.string()));
  try {
    plan.yaml = YamlOf(ParseConfig("", "the form", overrides), given, "", "");
  } catch (const InputErrors& errors) {
    plan.problems.insert(plan.problems.end(), errors.lines().begin(), errors.lines().end());
  } catch (const Error& error) {
    plan.problems.push_back(error.what());
  }
}

RunStarter::Plan RunStarter::PlanOf(const Json& form) const {
  if (!form.is_object()) throw ApiError{.message = "wanted {\"folder\", \"name\", \"ranks\", \"set\"}"};
  Plan plan;
  PlanFiles(form, plan);
  PlanYaml(form, plan);
  const Json ranks = form.value("ranks", Json(1));
  const int64_t world = ranks.is_number_integer() ? ranks.get<int64_t>() : 0;
  if (world < 1 || world > kMostRanks) plan.problems.push_back(Concat("ranks: wanted 1 to ", kMostRanks));
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (world > 1) plan.words = {"mpirun", "--bind-to", "none", "-n", std::to_string(world)};
  if (world > 1 && geteuid() == 0) plan.words.insert(plan.words.begin() + 1, "--allow-run-as-root");
  plan.words.insert(plan.words.end(), {error ? "trireme" : program.string(), "train", plan.yaml_file.string()});
  plan.command = Join(plan.words, " ", [](const std::string& word) { return ShellWord(word); });
  return plan;
}

Json RunStarter::Preview(const Json& form) const {
  const Plan plan = PlanOf(form);
  return {{"yaml", plan.yaml},
          {"file", plan.yaml_file.string()},
          {"command", plan.command},
          {"problems", plan.problems},
          {"folders", FolderNames()}};
}

Json RunStarter::Start(const Json& form) {
  Plan plan = PlanOf(form);
  if (!plan.problems.empty()) throw ApiError{.message = Join(plan.problems, "; ")};
  if (processes_.size() >= kMostStarted) throw ApiError{.status = 429, .message = "too many runs were started here"};
  WriteAll(CreateNew(plan.yaml_file), plan.yaml);
  const pid_t id = Spawn(plan.words, CreateNew(plan.text_file));
  processes_.push_back({.plan = std::move(plan), .id = id});
  return Describe(processes_.back());
}

const char* RunStarter::StateName(const Process& process) {
  if (!process.ended) return process.stopping ? "stopping" : "running";
  if (process.status != 0) return "failed";
  return process.stopping ? "stopped" : "done";
}

Json RunStarter::Describe(const Process& process) const {
  const fs::path& path = process.plan.text_file;
  const OpenedFile file = OpenRunFile(path.parent_path(), path.filename().c_str());
  const std::string text = file.is_open() ? file.Read(std::max<int64_t>(file.bytes() - kTextShown, 0), kTextShown) : "";
  return {{"name", process.plan.output.filename().string()},
          {"directory", process.plan.output.string()},
          {"command", process.plan.command},
          {"state", StateName(process)},
          {"status", process.ended ? Json(process.status) : Json(nullptr)},
          {"text", text}};
}

void RunStarter::Look(Process& process) {
  int status = 0;
  if (process.ended || waitpid(process.id, &status, WNOHANG) != process.id) return;
  process.ended = true;
  process.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// SIGUSR1, which mpirun passes on to its ranks.
Json RunStarter::Stop(const Json& form) {
  const Json directory = form.is_object() ? form.value("directory", Json()) : Json();
  for (auto process = processes_.rbegin(); process != processes_.rend(); ++process) {
    if (Json(process->plan.output.string()) != directory) continue;
    Look(*process);
    if (process->ended) throw ApiError{.status = 409, .message = "this run has ended already"};
    kill(process->id, SIGUSR1);
    process->stopping = true;
    return Describe(*process);
  }
  throw ApiError{
      .status = 404, .message = "directory: wanted that of a run that was started here", .param = "directory"};
}

Json RunStarter::Started() {
  Json runs = Json::array();
  for (auto process = processes_.rbegin(); process != processes_.rend(); ++process) {
    Look(*process);
    runs.push_back(Describe(*process));
  }
  return {{"runs", std::move(runs)}, {"folders", FolderNames()}};
}

}  // namespace trireme
