// Values as opcodes of a Python pickle, protocol 2: strings that are put together, for files that Python reads. Nothing
// is shared between them, so there is no memo. The reader's counterpart; knows no torch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plan/box.h"

namespace trireme {

std::string PickledNone();
std::string PickledBool(bool value);
std::string PickledInt(int64_t value);
std::string PickledFloat(double value);
std::string PickledText(std::string_view text);
std::string PickledTuple(const std::vector<std::string>& values);
std::string PickledTuple(const Shape& numbers);
std::string PickledList(const std::vector<std::string>& values);
// Keys and values, both pickled.
std::string PickledDict(const std::vector<std::pair<std::string, std::string>>& items);
// A class or function by its name.
std::string PickledGlobal(std::string_view module, std::string_view name);
std::string PickledCall(const std::string& global, const std::vector<std::string>& arguments);
// An instance of a class whose fields are `state`.
std::string PickledObject(const std::string& global, const std::string& state);
// What the file's reader finds by itself: a tensor's storage.
std::string PickledReference(const std::vector<std::string>& id);

// The pickle of one value.
std::string PickleOf(const std::string& value);

}  // namespace trireme
