# The command line alone. Build the packages first (docker build --target build, or cpack -G DEB), and name their folder:
#   docker build -f deploy/docker/client.Dockerfile -t libreyolo build/release/packages
#   docker run --rm -e LIBREYOLO_SERVER=gpu-box:7430 -v "$PWD:/work" libreyolo devices
FROM debian:bookworm-slim
COPY libreyolo_*.deb /tmp/packages/
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates /tmp/packages/*.deb && \
    rm -rf /tmp/packages /var/lib/apt/lists/*
WORKDIR /work
USER 65534:65534
ENTRYPOINT ["libreyolo"]
