#include "checkpoint/pickle/known_classes.h"

#include <algorithm>
#include <string_view>

namespace trireme {
namespace {

constexpr std::string_view kClasses[] = {"_codecs.encode",
                                         "argparse.Namespace",
                                         "builtins.bytearray",
                                         "builtins.complex",
                                         "builtins.frozenset",
                                         "builtins.getattr",  // a member of an enumeration, whose class is checked
                                         "builtins.set",
                                         "builtins.slice",
                                         "collections.OrderedDict",
                                         "collections.defaultdict",
                                         "datetime.timedelta",
                                         "io.BytesIO",
                                         "numpy.dtype",
                                         "numpy.ndarray",
                                         "numpy.core.multiarray._reconstruct",
                                         "numpy.core.multiarray.scalar",
                                         "numpy._core.multiarray._reconstruct",
                                         "numpy._core.multiarray.scalar",
                                         "numpy.dtypes.UInt32DType",
                                         "pathlib.Path",
                                         "pathlib.PosixPath",
                                         "pathlib._local.PosixPath",
                                         "signal.Signals",
                                         "torch.Size",
                                         "torch.Tensor",
                                         "torch.device",
                                         "torch._C.Generator",
                                         "torch._tensor._rebuild_from_type_v2",
                                         "torch._utils._rebuild_parameter",
                                         "torch._utils._rebuild_tensor_v2",
                                         "torch._utils._rebuild_tensor_v3",
                                         "torch.nn.parameter.Parameter",
                                         "torch.serialization._get_layout",
                                         "torch.storage.UntypedStorage",
                                         "torch_npu.utils.storage._rebuild_npu_tensor",
                                         "types.SimpleNamespace"};
// Enumerations and options in a run's own arguments.
constexpr std::string_view kModules[] = {"megatron.", "mindspeed.",          "mindspeed_llm.",
                                         "swift.",    "transformer_engine.", "torch.distributed.checkpoint."};
constexpr std::string_view kTorchTypes[] = {
    "float64",         "float32",    "float16", "bfloat16", "float8_e4m3fn", "int64",
    "int32",           "int16",      "int8",    "uint8",    "bool",          "float",
    "double",          "half",       "long",    "int",      "strided",       "contiguous_format",
    "preserve_format", "float8_e5m2"};

}  // namespace

bool IsKnownClass(const std::string& module, const std::string& name) {
  const std::string python3 = module == "__builtin__" ? "builtins" : module;
  const std::string full = python3 + "." + name;
  if (std::ranges::find(kClasses, full) != std::end(kClasses)) return true;
  if (module == "torch")
    return name.ends_with("Storage") || std::ranges::find(kTorchTypes, name) != std::end(kTorchTypes);
  // A dot in the name would reach through the module to whatever that one imported.
  if (name.find('.') != std::string::npos && !module.starts_with("torch.distributed.checkpoint")) return false;
  return std::ranges::any_of(kModules, [&](std::string_view prefix) { return full.starts_with(prefix); });
}

}  // namespace trireme
