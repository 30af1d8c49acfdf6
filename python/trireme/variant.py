"""Which of Trireme's packages this is. In a clone and in trireme-train it is this file; scripts/package --variant writes another."""
DISTRIBUTION = "trireme-train"
TORCH_VERSION = "2.7.1"  # cmake/FindLibtorch.cmake's; tests/scripts/package_test compares them
DEVICE = "twin"  # whose libraries the program links: twin, npu (CANN's, of the host), cuda
