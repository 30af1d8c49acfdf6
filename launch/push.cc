// `trireme push DIR OWNER/NAME`: a model or an adapter to a Hugging Face hub.
#include <iostream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "launch/push_files.h"
#include "web/hub/hub_upload.h"

namespace trireme {
namespace {

HubName RepositoryOf(const std::string& text) {
  std::optional<HubName> name = ParseHubName(text);
  if (!name || !name->revision.empty())
    throw InputError("OWNER/NAME is '", text,
                     "'; wanted the name of a repository, such as me/my-model; --branch names ",
                     "another branch than main");
  if (name->on_modelscope)
    throw InputError("USE_MODELSCOPE_HUB is set, and push knows Hugging Face hubs alone; unset it");
  return *name;
}

void ListFiles(const PushedFiles& files, const std::string& where, const std::string& branch) {
  int64_t bytes = 0;
  for (const UploadFile& file : files.files) {
    bytes += file.Size();
    std::cout << file.path << "  " << Counted(file.Size(), "byte") << (file.file.empty() ? "  (made)" : "") << "\n";
  }
  for (const std::string& path : files.left_out) std::cout << "left out: " << path << "\n";
  std::cout << Counted(static_cast<int64_t>(files.files.size()), "file") << ", " << Counted(bytes, "byte")
            << ", would go to " << where << ", branch " << branch << "\n";
}

void Push(const Arguments& arguments, Job& job) {
  if (job.rank() != 0) return;
  const std::string id = arguments.value("OWNER/NAME");
  const HubName name = RepositoryOf(id);
  const std::string branch = arguments.has("branch") ? arguments.value("branch") : "main";
  const PushedFiles files = FilesToPush(arguments.value("DIR"), id);
  const HubServer server = ReadHubServer();
  const HubUpload hub(name, server, [](const std::string& line) { std::cerr << line << "\n"; });
  if (arguments.has("dry-run")) return ListFiles(files, hub.page(), branch);
  const std::string offline = WhyNoDownloads();
  if (!offline.empty())
    throw InputError(offline, ", and so nothing is sent; unset it, or list the files with --dry-run");
  if (server.token.empty())
    throw InputError("no token: set HF_TOKEN (hf auth login) to one that may write to ", hub.page());
  hub.MakeRepository(arguments.has("private"), branch);
  const HubUpload::Pushed pushed =
      hub.Push(files.files, branch, arguments.has("message") ? arguments.value("message") : "Upload with trireme push");
  for (const std::string& path : files.left_out) std::cout << "left out: " << path << "\n";
  if (pushed.ignored > 0) std::cout << Counted(pushed.ignored, "file") << " left out by the repository's .gitignore\n";
  if (pushed.page.empty()) {
    std::cout << hub.page() << " has all of it already\n";
    return;
  }
  std::cout << pushed.page << ": " << Counted(pushed.files, "file") << ", " << Counted(pushed.sent_bytes, "byte")
            << " sent to its store";
  if (pushed.same > 0) std::cout << ", " << pushed.same << " as they were";
  std::cout << "\n";
}

}  // namespace

Command PushCommand() {
  return {
      .name = "push",
      .summary =
          "Sends a model or a PEFT adapter to a Hugging Face hub, with a model card, in one commit. Large files that "
          "the hub has are not sent again; checkpoints and optimizer states never are. The token is HF_TOKEN, or "
          "that of hf auth login.",
      .options = {{.name = "private", .help = "of a new repository; one that exists stays as it is"},
                  {.name = "branch", .value_name = "NAME", .help = "main by default; made if it does not exist"},
                  {.name = "message", .value_name = "TEXT", .help = "of the commit"},
                  {.name = "dry-run", .help = "list what would go, without asking the hub"}},
      .positionals = {{.name = "DIR", .help = "a Hugging Face directory, such as a run's OUTPUT/final"},
                      {.name = "OWNER/NAME", .help = "the repository, which is made if it does not exist"}},
      .run = Push};
}

}  // namespace trireme
