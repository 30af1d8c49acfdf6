// Open MPI's library as this program calls it. It is opened when a rank joins its job, not linked: mpirun and libmpi
// must come from one installation, and only the mpirun that started this process knows from which. A single rank needs
// none.
#pragma once

#include <mpi.h>

#include <string>

#ifndef OPEN_MPI
#error "wanted Open MPI's mpi.h: the names of handles in core/comm/mpi_library.cc are Open MPI's"
#endif

namespace trireme {

#define TRIREME_MPI_FUNCTIONS(FUNCTION) \
  FUNCTION(Abort)                       \
  FUNCTION(Allgather)                   \
  FUNCTION(Allgatherv)                  \
  FUNCTION(Allreduce)                   \
  FUNCTION(Alltoall)                    \
  FUNCTION(Barrier)                     \
  FUNCTION(Bcast)                       \
  FUNCTION(Comm_free)                   \
  FUNCTION(Comm_rank)                   \
  FUNCTION(Comm_size)                   \
  FUNCTION(Comm_split_type)             \
  FUNCTION(Finalize)                    \
  FUNCTION(Get_library_version)         \
  FUNCTION(Init_thread)                 \
  FUNCTION(Recv)                        \
  FUNCTION(Reduce_scatter_block)        \
  FUNCTION(Send)                        \
  FUNCTION(Sendrecv)

// Handles are objects inside the library: mpi.h's MPI_COMM_WORLD and its like would link it.
#define TRIREME_MPI_HANDLES(HANDLE)               \
  HANDLE(MPI_Comm, world, "ompi_mpi_comm_world")  \
  HANDLE(MPI_Info, no_info, "ompi_mpi_info_null") \
  HANDLE(MPI_Op, sum, "ompi_mpi_op_sum")          \
  HANDLE(MPI_Op, max, "ompi_mpi_op_max")          \
  HANDLE(MPI_Datatype, bytes, "ompi_mpi_byte")    \
  HANDLE(MPI_Datatype, ints, "ompi_mpi_int")      \
  HANDLE(MPI_Datatype, fp64, "ompi_mpi_double")   \
  HANDLE(MPI_Datatype, fp32, "ompi_mpi_float")    \
  HANDLE(MPI_Datatype, int64, "ompi_mpi_int64_t") \
  HANDLE(MPI_Datatype, int32, "ompi_mpi_int32_t") \
  HANDLE(MPI_Datatype, int16, "ompi_mpi_int16_t") \
  HANDLE(MPI_Datatype, int8, "ompi_mpi_int8_t")

struct MpiLibrary {
#define TRIREME_MPI_DECLARE(name) decltype(&MPI_##name) name = nullptr;
  TRIREME_MPI_FUNCTIONS(TRIREME_MPI_DECLARE)
#undef TRIREME_MPI_DECLARE
#define TRIREME_MPI_DECLARE(type, name, symbol) type name = nullptr;
  TRIREME_MPI_HANDLES(TRIREME_MPI_DECLARE)
#undef TRIREME_MPI_DECLARE
};

// Opened on the first call; an input error says where it was looked for.
const MpiLibrary& Mpi();

}  // namespace trireme
