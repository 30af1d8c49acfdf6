# Trireme for Ascend's cards. The wheel's program is the twin's, so this one is compiled in CANN's image, and installed as the
# wheel is, beside torch and torch_npu:
#   docker build -f packaging/docker/ascend.Dockerfile -t trireme .
#   docker run --rm -it --shm-size 64g --ulimit memlock=-1 --network host -v "$PWD:/runs" -w /runs \
#     --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc \
#     -v /usr/local/Ascend/driver:/usr/local/Ascend/driver:ro -v /usr/local/dcmi:/usr/local/dcmi:ro \
#     -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi:ro -v /etc/ascend_install.info:/etc/ascend_install.info:ro \
#     trireme trireme launch run.yaml
# One --device /dev/davinciN per card. With Ascend's container runtime: --runtime=ascend -e ASCEND_VISIBLE_DEVICES=0-7 instead of
# all devices and mounts. The base image brings CANN (toolkit, kernels, HCCL); the driver is the host's.
# Not run by any test: there is no container engine where Trireme is tested (tests/scripts/docker_test reads it).
ARG CANN_IMAGE=ascendai/cann:8.1.rc1-910b-ubuntu22.04-py3.10
FROM ${CANN_IMAGE} AS build
SHELL ["/bin/bash", "-c"]
WORKDIR /src
COPY . .
RUN source /usr/local/Ascend/ascend-toolkit/set_env.sh && \
    CMAKE_ARGS=-DTRIREME_CANN=ascend scripts/build trireme && \
    for part in Program Python; do cmake --install build --component $part --prefix /opt/trireme --strip; done

FROM ${CANN_IMAGE}
SHELL ["/bin/bash", "-c"]
COPY --from=build /opt/trireme /opt/trireme
# The libraries that the program links, by the names of Ubuntu 22.04. mpi-operator starts ranks by ssh; others need none.
RUN apt-get update && apt-get install -y --no-install-recommends openmpi-bin libprotobuf23 libre2-9 libgoogle-glog0v5 libgflags2.2 \
      libyaml-cpp0.7 libisal2 libxxhash0 libzstd1 libwebp7 libjpeg-turbo8 libpng16-16 libssl3 libsz2 openssh-server openssh-client && \
    mkdir -p /run/sshd && rm -rf /var/lib/apt/lists/*
# torch's index without CUDA is needed on x86_64 only; on aarch64 the public one has that build.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" torch==2.7.1 torch_npu==2.7.1 numpy pyyaml && \
    site=$(python3 -c 'import site; print(site.getsitepackages()[0])') && \
    mv /opt/trireme "$site/trireme" && ln -s "$site/trireme" /opt/trireme && \
    printf '#!/bin/sh\nexec python3 -m trireme "$@"\n' >/usr/local/bin/trireme && chmod +x /usr/local/bin/trireme
# For scripts/run.sh and its like, which the jobs of examples/cluster start in /opt/trireme.
ENV TRIREME=/opt/trireme/bin/trireme TRIREME_HOME=/opt/trireme
CMD ["bash"]
