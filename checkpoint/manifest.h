// The manifest of a checkpoint: read and checked, written, and what its names are. Reading refuses a newer
// format, a file that is missing or short, and pieces that do not make up their tensors.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/manifest.pb.h"
#include "core/plan/box.h"

namespace trireme {

inline constexpr uint32_t kFormat = 1;
inline constexpr char kManifestFile[] = "manifest.pb";
inline constexpr char kIndexFile[] = "index.h5";

std::string RankFile(int rank);  // "rank-00003.h5"
std::string RankManifest(
    int rank);  // "rank-00003.pb": what that file holds, until the checkpoint is complete

Box BoxOf(const checkpoint::Piece& piece);
Shape ShapeOf(const checkpoint::Tensor& tensor);
// The dataset of a piece in its file: "/weights/NAME[0:4, 0:8]".
std::string DatasetOf(const std::string& key, const Box& box);

bool IsCheckpoint(const std::filesystem::path& directory);  // whether there is a manifest

checkpoint::Manifest ReadManifest(const std::filesystem::path& directory);
// The same without the checks of what the directory holds.
checkpoint::Manifest ParseManifestFile(const std::filesystem::path& file);
// `sync_name` as in WholeFile::Commit.
void WriteManifestFile(const std::filesystem::path& file, const checkpoint::Manifest& manifest,
                       bool sync_name = true);

// Refuses pieces that leave their tensor, leave a gap or overlap. `where` stands before the message.
void CheckCovered(const checkpoint::Tensor& tensor, const std::string& where);

}  // namespace trireme
