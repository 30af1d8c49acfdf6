# Trireme for NVIDIA's GPUs. The wheel's program is the twin's, so this one is compiled here, without a GPU, and installed as the
# wheel is, beside torch with its CUDA libraries:
#   docker build -f packaging/docker/cuda.Dockerfile -t trireme:cuda .
#   docker run --rm -it --gpus all --shm-size 64g -v "$PWD:/runs" trireme:cuda scripts/run.sh /runs/run.yaml
# Not run by any test: there is no container engine where Trireme is tested (tests/scripts/docker_test reads it).
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY . .
# Debian's Python is what scripts/setup builds with; git is for its version.
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv git ca-certificates && \
    scripts/setup --cuda && \
    TRIREME_CANN=cuda BUILD_DIR=build-cuda scripts/build trireme && \
    for part in Program Python; do cmake --install build-cuda --component $part --prefix /opt/trireme --strip; done

FROM python:3.11-slim-bookworm
COPY --from=build /opt/trireme /usr/local/lib/python3.11/site-packages/trireme
RUN pip install --no-cache-dir torch==2.11.0 && apt-get update && apt-get install -y --no-install-recommends openmpi-bin libprotobuf32 \
      libre2-9 libgoogle-glog0v6 libgflags2.2 libyaml-cpp0.7 libisal2 libxxhash0 libzstd1 libwebp7 libjpeg62-turbo libpng16-16 libssl3 \
      libsz2 openssh-client && rm -rf /var/lib/apt/lists/*
# Not the command trireme of the wheel: that is for the torch of the twin's program.
ENV TRIREME=/usr/local/lib/python3.11/site-packages/trireme/bin/trireme
WORKDIR /usr/local/lib/python3.11/site-packages/trireme
CMD ["bash"]
