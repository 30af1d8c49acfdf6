#include "checkpoint/hdf5_file.h"

#include <fcntl.h>
#include <hdf5.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "core/io/file_system.h"

namespace trireme {
namespace {

std::mutex& Hdf5Lock() {
  static std::mutex lock;
  return lock;
}

// An HDF5 handle that closes itself.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator hid_t() const { return id_; }  // for HDF5's functions

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// The system's error text, or else HDF5's innermost message, on one line.
std::string Reason(int number) {
  std::string reason;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned level, const H5E_error2_t* error, void* text) -> herr_t {
        if (level == 0) *static_cast<std::string*>(text) = error->desc != nullptr ? error->desc : "";
        return 0;
      },
      &reason);
  H5Eclear2(H5E_DEFAULT);
  if (number != 0) return std::strerror(number);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return reason.empty() ? "unknown HDF5 error" : reason;
}

// HDF5's own clean-up at exit crashes on a file that could not be closed.
void LeaveExitAlone() {
  static const herr_t once = H5dont_atexit();
  static_cast<void>(once);
}

class Calls {  // on one file, under the lock; silences HDF5's own output
 public:
  explicit Calls(const std::filesystem::path& path) : path_(path), lock_(Hdf5Lock()) {
    LeaveExitAlone();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    errno = 0;
  }

  template <typename Result>
  Result Want(Result result, const char* what, const std::string& name = "") const {
    if (result >= 0) return result;
    const int number = errno;
    throw RuntimeError(path_.string(), ": ", what, name.empty() ? "" : " ", name, ": ", Reason(number));
  }

 private:
  const std::filesystem::path& path_;
  std::lock_guard<std::mutex> lock_;
};

// IEEE formats that HDF5 has no constant for: exponent and fraction bits, the sign on top.
hid_t SmallFloat(size_t exponent_bits, size_t fraction_bits, size_t bias) {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  const size_t bits = 1 + exponent_bits + fraction_bits;
  H5Tset_fields(type, bits - 1, fraction_bits, exponent_bits, 0, fraction_bits);
  H5Tset_precision(type, bits);
  H5Tset_ebias(type, bias);
  H5Tset_size(type, bits / 8);
  return type;
}

hid_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFp64:
      return H5Tcopy(H5T_IEEE_F64LE);
    case DType::kFp32:
      return H5Tcopy(H5T_IEEE_F32LE);
    case DType::kFp16:
      return SmallFloat(5, 10, 15);
    case DType::kBf16:
      return SmallFloat(8, 7, 127);
    case DType::kFp8E4M3:
      return SmallFloat(4, 3, 7);
    case DType::kInt64:
      return H5Tcopy(H5T_STD_I64LE);
    case DType::kInt32:
      return H5Tcopy(H5T_STD_I32LE);
    case DType::kInt16:
      return H5Tcopy(H5T_STD_I16LE);
    case DType::kInt8:
      return H5Tcopy(H5T_STD_I8LE);
    case DType::kUint8:
    case DType::kBool:
      return H5Tcopy(H5T_STD_U8LE);
  }
  return -1;
}

std::vector<hsize_t> Sizes(const Shape& shape) { return {shape.begin(), shape.end()}; }

hid_t SpaceOf(const Shape& shape) {
  const std::vector<hsize_t> sizes = Sizes(shape);
  return shape.empty() ? H5Screate(H5S_SCALAR)
                       : H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
}

// Lets the disk start while the next dataset is prepared; a hint, whose failure does not matter.
void StartWriting(hid_t file, uint64_t offset, uint64_t bytes) {
  constexpr uint64_t kWorthIt = uint64_t{1} << 20;
  void* handle = nullptr;
  if (bytes < kWorthIt || H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0 || handle == nullptr) return;
  sync_file_range(*static_cast<int*>(handle), static_cast<off64_t>(offset), static_cast<off64_t>(bytes),
                  SYNC_FILE_RANGE_WRITE);
}

hid_t MakeGroups() {
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  return links;
}

}  // namespace

Hdf5File::Hdf5File(const std::filesystem::path& path) : path_(path) {
  const Calls calls(path_);
  const Handle access(calls.Want(H5Pcreate(H5P_FILE_ACCESS), "cannot be created"), H5Pclose);
  calls.Want(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), "cannot be created");
  calls.Want(H5Pset_alignment(access, 16 * kDatasetAlignment, kDatasetAlignment), "cannot be created");
  file_ = calls.Want(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access), "cannot be created");
}

Hdf5File::~Hdf5File() {
  if (file_ < 0) return;
  const std::lock_guard<std::mutex> lock(Hdf5Lock());
  H5Fclose(file_);
}

uint64_t Hdf5File::WriteDataset(const std::string& name, DType dtype, const Shape& shape, const void* data) {
  const Calls calls(path_);
  const Handle type(calls.Want(TypeOf(dtype), "cannot create the type of", name), H5Tclose);
  const Handle space(calls.Want(SpaceOf(shape), "cannot create the shape of", name), H5Sclose);
  const Handle creation(calls.Want(H5Pcreate(H5P_DATASET_CREATE), "cannot create", name), H5Pclose);
  calls.Want(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), "cannot create", name);
  calls.Want(H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER), "cannot create", name);
  const Handle links(MakeGroups(), H5Pclose);
  errno = 0;
  const Handle dataset(
      calls.Want(H5Dcreate2(file_, name.c_str(), type, space, links, creation, H5P_DEFAULT), "cannot create", name),
      H5Dclose);
  if (Elements(shape) == 0) return 0;
  errno = 0;
  calls.Want(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "cannot write", name);
  const haddr_t offset = H5Dget_offset(dataset);
  if (offset == HADDR_UNDEF) throw RuntimeError(path_.string(), ": dataset ", name, " has no offset in the file");
  StartWriting(file_, offset, static_cast<uint64_t>(Elements(shape) * ByteSize(dtype)));
  return offset;
}

void Hdf5File::WriteVirtual(const std::string& name, DType dtype, const Shape& shape,
                            const std::vector<VirtualPiece>& pieces) {
  const Calls calls(path_);
  const Handle type(calls.Want(TypeOf(dtype), "cannot create the type of", name), H5Tclose);
  const Handle space(calls.Want(SpaceOf(shape), "cannot create the shape of", name), H5Sclose);
  const Handle creation(calls.Want(H5Pcreate(H5P_DATASET_CREATE), "cannot create", name), H5Pclose);
  for (const VirtualPiece& piece : pieces) {
    const Handle source(calls.Want(SpaceOf(piece.box.extent), "cannot create the shape of", name), H5Sclose);
    const std::vector<hsize_t> offset = Sizes(piece.box.offset), extent = Sizes(piece.box.extent);
    calls.Want(H5Sselect_hyperslab(space, H5S_SELECT_SET, offset.data(), nullptr, extent.data(), nullptr),
               "cannot place a piece of", name);
    calls.Want(H5Pset_virtual(creation, space, piece.file.c_str(), piece.dataset.c_str(), source),
               "cannot place a piece of", name);
  }
  calls.Want(H5Sselect_all(space), "cannot create", name);
  const Handle links(MakeGroups(), H5Pclose);
  errno = 0;
  const Handle dataset(
      calls.Want(H5Dcreate2(file_, name.c_str(), type, space, links, creation, H5P_DEFAULT), "cannot create", name),
      H5Dclose);
}

void Hdf5File::WriteAttribute(const std::string& name, const std::string& text) {
  const Calls calls(path_);
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  calls.Want(H5Tset_size(type, text.size() + 1), "cannot write the attribute", name);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute(calls.Want(H5Acreate2(file_, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                                    "cannot write the attribute", name),
                         H5Aclose);
  calls.Want(H5Awrite(attribute, type, text.c_str()), "cannot write the attribute", name);
}

void Hdf5File::Close() {
  {
    const Calls calls(path_);
    errno = 0;
    calls.Want(H5Fflush(file_, H5F_SCOPE_GLOBAL), "cannot be written");
    errno = 0;
    calls.Want(H5Fclose(std::exchange(file_, -1)), "cannot be closed");
  }
  SyncFile(path_);
}

}  // namespace trireme
