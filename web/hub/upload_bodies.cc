#include "web/hub/upload_bodies.h"

#include <openssl/evp.h>

#include <algorithm>
#include <charconv>

#include "core/base/error.h"
#include "core/base/json.h"

namespace trireme {
namespace {

constexpr int64_t kSampleBytes = 512;  // of each file, for the hub to tell text from others

std::string Base64(const std::string& bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // and a zero at its end
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

Error WrongAnswer(const std::string& who, const std::string& json, const std::string& wanted) {
  return InputError(who, " answered '", json.substr(0, 80), "'; wanted ", wanted, ": is HF_ENDPOINT a hub?");
}

std::string TextIn(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The parts' addresses stand among the headers, by numbers.
void TakeHeaders(const Json& header, LargeUpload& upload) {
  std::map<int, std::string> parts;
  for (const auto& [name, value] : header.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (name == "chunk_size") {
      std::from_chars(text.data(), text.data() + text.size(), upload.part_bytes);
    } else if (error == std::errc() && end == name.data() + name.size()) {
      parts[number] = text;
    } else if (text.find_first_of("\r\n") == std::string::npos) {
      upload.headers.emplace_back(name, text);
    }
  }
  if (upload.part_bytes == 0) return;
  for (auto& [number, address] : parts) upload.parts.push_back(std::move(address));
}

const LargeBlob& BlobOf(const std::vector<LargeBlob>& blobs, const std::string& digest, const std::string& who,
                        const std::string& json) {
  const auto found = std::ranges::find(blobs, digest, &LargeBlob::digest);
  if (found == blobs.end()) throw WrongAnswer(who, json, "the files that it was asked about");
  return *found;
}

void RefuseObject(const Json& object, const std::string& who) {
  const auto error = object.find("error");
  if (error == object.end()) return;
  throw InputError(who, " does not take ", TextIn(object, "oid").substr(0, 12), "…: ", TextIn(*error, "message"));
}

}  // namespace

std::string RepositoryBody(const HubName& name, bool is_private) {
  return Json{{"type", "model"}, {"name", name.name}, {"organization", name.owner}, {"private", is_private}}.dump();
}

std::string ModesBody(const std::vector<UploadFile>& files) {
  Json list = Json::array();
  for (const UploadFile& file : files) {
    const int64_t size = file.Size();
    list.push_back(
        {{"path", file.path}, {"sample", Base64(file.Read(0, std::min(size, kSampleBytes)))}, {"size", size}});
  }
  return Json{{"files", std::move(list)}}.dump();
}

std::map<std::string, UploadMode> ParseModes(const std::string& json, const std::string& who) {
  const Json answer = TryParseJson(json);
  const auto files = answer.is_object() ? answer.find("files") : answer.end();
  if (!answer.is_object() || files == answer.end() || !files->is_array())
    throw WrongAnswer(who, json, "how each file is to be sent");
  std::map<std::string, UploadMode> modes;
  for (const Json& file : *files) {
    const std::string path = TextIn(file, "path"), mode = TextIn(file, "uploadMode");
    if (path.empty() || (mode != "regular" && mode != "lfs")) throw WrongAnswer(who, json, "modes regular and lfs");
    const auto ignored = file.find("shouldIgnore");
    modes[path] = {.large = mode == "lfs",
                   .ignored = ignored != file.end() && ignored->is_boolean() && ignored->get<bool>(),
                   .known = TextIn(file, "oid")};
  }
  return modes;
}

std::string StoreBody(const std::vector<LargeBlob>& blobs, const std::string& branch) {
  Json objects = Json::array();
  for (const LargeBlob& blob : blobs) objects.push_back({{"oid", blob.digest}, {"size", blob.size}});
  return Json{{"operation", "upload"},
              {"transfers", {"basic", "multipart"}},
              {"objects", std::move(objects)},
              {"hash_algo", "sha256"},
              {"ref", {{"name", branch}}}}
      .dump();
}

std::map<std::string, LargeUpload> ParseStore(const std::string& json, const std::vector<LargeBlob>& blobs,
                                              const std::string& who) {
  const Json answer = TryParseJson(json);
  const auto objects = answer.is_object() ? answer.find("objects") : answer.end();
  if (!answer.is_object() || objects == answer.end() || !objects->is_array())
    throw WrongAnswer(who, json, "where large files are to be sent");
  std::map<std::string, LargeUpload> uploads;
  for (const Json& object : *objects) {
    if (!object.is_object()) throw WrongAnswer(who, json, "objects");
    RefuseObject(object, who);
    const LargeBlob& blob = BlobOf(blobs, TextIn(object, "oid"), who, json);
    const auto actions = object.find("actions");
    if (actions == object.end() || !actions->is_object() || !actions->contains("upload")) continue;
    const Json& action = actions->at("upload");
    LargeUpload upload{.address = TextIn(action, "href")};
    if (action.is_object() && action.contains("header") && action["header"].is_object())
      TakeHeaders(action["header"], upload);
    if (actions->contains("verify")) upload.verify = TextIn(actions->at("verify"), "href");
    const int64_t bytes = upload.part_bytes;
    const int64_t wanted = bytes > 0 ? (blob.size + bytes - 1) / bytes : 0;
    if (upload.address.empty() || bytes < 0 || wanted != static_cast<int64_t>(upload.parts.size()))
      throw WrongAnswer(who, json, "an address for each part of a large file");
    uploads[blob.digest] = std::move(upload);
  }
  return uploads;
}

std::string PartsBody(const std::string& digest, const std::vector<std::string>& tags) {
  Json parts = Json::array();
  for (size_t i = 0; i < tags.size(); ++i) parts.push_back({{"partNumber", i + 1}, {"etag", tags[i]}});
  return Json{{"oid", digest}, {"parts", std::move(parts)}}.dump();
}

std::string VerifyBody(const LargeBlob& blob) { return Json{{"oid", blob.digest}, {"size", blob.size}}.dump(); }

std::string CommitBody(const std::string& message, const std::vector<CommitFile>& files) {
  std::string lines = JsonLine({{"key", "header"}, {"value", {{"summary", message}, {"description", ""}}}}) + "\n";
  for (const auto& [file, blob] : files) {
    const Json line =
        blob.digest.empty()
            ? Json{{"key", "file"},
                   {"value",
                    {{"content", Base64(file->Read(0, file->Size()))}, {"path", file->path}, {"encoding", "base64"}}}}
            : Json{{"key", "lfsFile"},
                   {"value", {{"path", file->path}, {"algo", "sha256"}, {"oid", blob.digest}, {"size", blob.size}}}};
    lines += JsonLine(line) + "\n";
  }
  return lines;
}

std::string ParseCommit(const std::string& json) { return TextIn(TryParseJson(json), "commitUrl"); }

}  // namespace trireme
