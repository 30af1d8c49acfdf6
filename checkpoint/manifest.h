// The manifest of a checkpoint: reading with checks, writing, and its names. Reading refuses a newer format,
// a manifest that does not match its digest, a step that differs from the directory's name, a missing or
// truncated file, and pieces that do not make up their tensors. Format 1 has no digests: it is read, with a
// warning.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/manifest.pb.h"
#include "core/io/file_digest.h"
#include "core/plan/box.h"

namespace trireme {

inline constexpr uint32_t kFormat = 2;
inline constexpr uint32_t kFirstDigested = 2;  // the first format with a digest over the manifest
inline constexpr char kManifestFile[] = "manifest.pb";
inline constexpr char kIndexFile[] = "index.h5";

std::string RankFile(int rank);      // "rank-00003.h5"
std::string RankManifest(int rank);  // "rank-00003.pb": the content of that file, until the checkpoint is complete

Box BoxOf(const checkpoint::Piece& piece);
Shape ShapeOf(const checkpoint::Tensor& tensor);
// The dataset of a piece in its file: "/weights/NAME[0:4, 0:8]".
std::string DatasetOf(const std::string& key, const Box& box);

// The byte ranges of the pieces in one file.
std::vector<ByteRange> PiecesIn(const checkpoint::Manifest& manifest, uint32_t file);

bool IsCheckpoint(const std::filesystem::path& directory);  // whether it has a manifest

checkpoint::Manifest ReadManifest(const std::filesystem::path& directory);
// The same without checking the directory's files: digest and format only.
checkpoint::Manifest ParseManifestFile(const std::filesystem::path& file);
// Adds the digest. `sync_name` as in AtomicFile::Commit.
void WriteManifestFile(const std::filesystem::path& file, const checkpoint::Manifest& manifest, bool sync_name = true);

// Refuses pieces that exceed their tensor, leave a gap or overlap. `where` prefixes the message.
void CheckCovered(const checkpoint::Tensor& tensor, const std::string& where);

}  // namespace trireme
