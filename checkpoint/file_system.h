// Files and folders that are on the disk when a function returns. Errors name the file and the reason.
#pragma once

#include <filesystem>

namespace trireme {

void SyncFile(const std::filesystem::path& file);
// A name in a folder is on the disk only once the folder is.
void SyncFolder(const std::filesystem::path& folder);
// Within one file system; what has the new name already is replaced, unless it is a folder with something in
// it.
void RenameAndSync(const std::filesystem::path& from, const std::filesystem::path& to);
// Both exist; they change names at once.
void ExchangeAndSync(const std::filesystem::path& a, const std::filesystem::path& b);
void CreateFolder(const std::filesystem::path& folder);  // and those above it
// A folder and all in it, or a file; nothing where it is not there.
void RemoveAll(const std::filesystem::path& path);

// The folder that a path is in: "." for a plain name.
std::filesystem::path FolderOf(const std::filesystem::path& path);

}  // namespace trireme
