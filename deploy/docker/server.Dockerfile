# libreyolod in a container. From the root of the checkout:
#   docker build -f deploy/docker/server.Dockerfile --target cpu  -t libreyolod:cpu .
#   docker build -f deploy/docker/server.Dockerfile --target cuda -t libreyolod:cuda .
# Both hold the client too, so that one container can profile by itself (deploy/kubernetes/job.yaml).
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY scripts/setup scripts/system_packages.txt scripts/fetch_libtorch.sh scripts/libtorch_wheels.txt scripts/
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates dpkg-dev && scripts/setup
COPY . .
RUN cmake --preset release -DBUILD_TESTING=OFF && cmake --build --preset release && \
    cpack -G DEB --config build/release/CPackConfig.cmake -B /packages

FROM debian:bookworm-slim AS cpu
COPY --from=build /packages/*.deb /tmp/packages/
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates /tmp/packages/*.deb && \
    rm -rf /tmp/packages /var/lib/apt/lists/* && \
    groupadd --system --gid 10001 libreyolo-run && \
    useradd --system --uid 10001 --gid 10001 --home-dir /var/lib/libreyolod libreyolo-run && \
    install -d -o 10001 -g 10001 /var/lib/libreyolod /var/cache/libreyolod /work
USER 10001:10001
WORKDIR /work
ENV XDG_CACHE_HOME=/var/cache HOME=/var/lib/libreyolod
VOLUME ["/var/lib/libreyolod", "/var/cache/libreyolod"]
EXPOSE 7430
# SIGTERM drains: give the container as long as a job may take (--stop-timeout 2100).
STOPSIGNAL SIGTERM
ENTRYPOINT ["libreyolod"]
# Loopback only, until somebody says who may come in: see compose.yaml for TLS and tokens.
CMD ["--listen", "127.0.0.1:7430", "--store", "/var/lib/libreyolod", "--cache", "/var/cache/libreyolod"]

# The wheels of LibTorch's version, whole: libtorch_cuda and the CUDA libraries that it loads. The driver (libcuda, NVML)
# comes from the host by the NVIDIA container runtime.
FROM cpu AS cuda
USER root
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip && \
    version=$(dpkg-query -W -f='${Architecture}' libreyolod) && test "$version" = amd64 && \
    pip3 install --no-cache-dir --break-system-packages --upgrade --target /usr/lib/x86_64-linux-gnu/libreyolo \
      torch==2.11.0 && \
    apt-get purge -y --auto-remove python3-pip && rm -rf /var/lib/apt/lists/*
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
