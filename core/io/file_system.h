// File and directory operations that are durable when they return. Errors name the file and the reason.
#pragma once

#include <filesystem>

namespace trireme {

void SyncFile(const std::filesystem::path& file);
// A name is durable only once its directory is synced.
void SyncFolder(const std::filesystem::path& folder);
// Within one file system; replaces an existing file or empty directory of that name.
void RenameAndSync(const std::filesystem::path& from, const std::filesystem::path& to);
// Both exist; their names are exchanged atomically.
void ExchangeAndSync(const std::filesystem::path& a, const std::filesystem::path& b);
void CreateFolder(const std::filesystem::path& folder);  // with its parents
// A directory with all its content, or a file; a no-op if it does not exist.
void RemoveAll(const std::filesystem::path& path);

// The directory that contains a path: "." for a plain name.
std::filesystem::path FolderOf(const std::filesystem::path& path);

}  // namespace trireme
