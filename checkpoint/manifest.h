// The manifest of a checkpoint: read and checked, written, and what its names are. Reading refuses a newer
// format, a manifest that does not match its digest, a step that is not the directory's, a file that is missing
// or short, and pieces that do not make up their tensors. Format 1 has no digests: it is read, with a warning.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/file_digest.h"
#include "checkpoint/manifest.pb.h"
#include "core/plan/box.h"

namespace trireme {

inline constexpr uint32_t kFormat = 2;
inline constexpr uint32_t kFirstDigested = 2;  // the first format with a digest over the manifest
inline constexpr char kManifestFile[] = "manifest.pb";
inline constexpr char kIndexFile[] = "index.h5";

std::string RankFile(int rank);  // "rank-00003.h5"
std::string RankManifest(
    int rank);  // "rank-00003.pb": what that file holds, until the checkpoint is complete

Box BoxOf(const checkpoint::Piece& piece);
Shape ShapeOf(const checkpoint::Tensor& tensor);
// The dataset of a piece in its file: "/weights/NAME[0:4, 0:8]".
std::string DatasetOf(const std::string& key, const Box& box);

// Where the pieces of one file lie in it.
std::vector<ByteRange> PiecesIn(const checkpoint::Manifest& manifest, uint32_t file);

bool IsCheckpoint(const std::filesystem::path& directory);  // whether there is a manifest

checkpoint::Manifest ReadManifest(const std::filesystem::path& directory);
// The same without the checks of what the directory holds: digest and format alone.
checkpoint::Manifest ParseManifestFile(const std::filesystem::path& file);
// With its digest. `sync_name` as in WholeFile::Commit.
void WriteManifestFile(const std::filesystem::path& file, const checkpoint::Manifest& manifest,
                       bool sync_name = true);

// Refuses pieces that leave their tensor, leave a gap or overlap. `where` stands before the message.
void CheckCovered(const checkpoint::Tensor& tensor, const std::string& where);

}  // namespace trireme
