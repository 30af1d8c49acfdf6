// ImageSource: where an image's bytes are: a file, or the text of a `data:` URL. Addresses on the network are refused:
// a training run reads what is there when it starts.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "core/io/mapped_file.h"
#include "images/image.h"

namespace trireme::images {

class ImageSource {
 public:
  // `text` is a path, relative ones in `folder`, a file: URL or a data: URL. Throws InputError.
  ImageSource(const std::string& text, const std::filesystem::path& folder);

  Bytes bytes() const;
  const std::string& name() const { return name_; }  // the path, or what kind of text it was

 private:
  std::string name_;
  std::variant<std::vector<uint8_t>, MappedFile> content_;
};

// Of base64 with or without line breaks and padding. Throws InputError that begins with `name`.
std::vector<uint8_t> FromBase64(std::string_view text, const std::string& name);

}  // namespace trireme::images
