# cann::headers: the ACL and HCCL headers of the torch_npu 2.7.1 wheel, which are BSD-licensed and stay where
# the wheel was installed. No other version: later wheels carry headers whose licence forbids this use.
# cann::acl, cann::hccl: the libraries, Huawei's or the targets of twin/ or providers/cuda, chosen by TRIREME_CANN.
set(TORCH_NPU_WANTED 2.7.1)
set(TORCH_NPU_DIR "${PROJECT_SOURCE_DIR}/.torch_npu" CACHE PATH "where the torch_npu wheel is installed (pip --target)")
file(GLOB wheel_info "${TORCH_NPU_DIR}/torch_npu-*.dist-info")
if(NOT wheel_info)
  message(FATAL_ERROR "no torch_npu wheel in ${TORCH_NPU_DIR}; wanted ${TORCH_NPU_WANTED}; run scripts/setup")
endif()
if(NOT wheel_info MATCHES "torch_npu-${TORCH_NPU_WANTED}\\.dist-info$")
  message(FATAL_ERROR "found ${wheel_info}; wanted torch_npu ${TORCH_NPU_WANTED} exactly; remove ${TORCH_NPU_DIR} and run scripts/setup")
endif()

add_library(cann_headers INTERFACE)
add_library(cann::headers ALIAS cann_headers)
set(wheel_include "${TORCH_NPU_DIR}/torch_npu/include")
target_include_directories(cann_headers SYSTEM INTERFACE
  "${wheel_include}" "${wheel_include}/third_party/acl/inc" "${wheel_include}/third_party/hccl/inc")

if(TRIREME_CANN STREQUAL "ascend")
  set(ascend_home "$ENV{ASCEND_HOME_PATH}")
  foreach(name acl hccl)
    set(file_acl libascendcl.so)
    set(file_hccl libhccl.so)
    set(path "${ascend_home}/lib64/${file_${name}}")
    if(NOT EXISTS "${path}")
      message(FATAL_ERROR "TRIREME_CANN=ascend, but ${path} does not exist; install CANN and source its set_env.sh, or set TRIREME_CANN=twin")
    endif()
    add_library(cann_${name} INTERFACE)
    target_link_libraries(cann_${name} INTERFACE "${path}" cann::headers)
    add_library(cann::${name} ALIAS cann_${name})
  endforeach()
endif()
