#include "checkpoint/pickle/torch_writer.h"

#include <utility>

#include "checkpoint/pickle/pickled.h"
#include "checkpoint/pickle/torch_file.h"
#include "core/base/error.h"

namespace trireme {
namespace {

std::string TorchGlobal(std::string_view name) {  // "torch.FloatStorage"
  const size_t dot = name.find('.');
  return PickledGlobal(name.substr(0, dot), name.substr(dot + 1));
}

}  // namespace

std::string PickledType(DType dtype) { return TorchGlobal(TorchName(dtype)); }

std::string PickledTensor(DType dtype, const Shape& shape, int64_t storage) {
  const std::string_view kind = TorchStorage(dtype);
  TRIREME_CHECK(!kind.empty()) << Name(dtype) << " has no storage of its own in files of torch.save";
  const std::string elements =
      PickledReference({PickledText("storage"), TorchGlobal(kind), PickledText(std::to_string(storage)),
                        PickledText("cpu"), PickledInt(Elements(shape))});
  return PickledCall(PickledGlobal("torch._utils", "_rebuild_tensor_v2"),
                     {elements, PickledInt(0), PickledTuple(shape), PickledTuple(RowMajorStrides(shape)),
                      PickledBool(false), PickledCall(PickledGlobal("collections", "OrderedDict"), {})});
}

TorchFileWriter::TorchFileWriter(ByteSink sink, const std::string& top, const std::string& value)
    : zip_(std::move(sink), top) {
  zip_.Add("data.pkl", PickleOf(value));
  zip_.Add("byteorder", "little");
}

void TorchFileWriter::Add(const void* data, uint64_t bytes) { zip_.Add(Concat("data/", storages_++), data, bytes); }

uint64_t TorchFileWriter::Close() {
  zip_.Add("version", "3\n");
  return zip_.Close();
}

}  // namespace trireme
