# The command and the extension in a small image:
#
#   docker build -t densite .
#   docker run --rm -v "$PWD:/data" densite info app.db
#
# The extension is /usr/lib/libdensite.so. scripts/dist/oldest-rust.sh runs the same build in the same
# Debian.
FROM rust:1.95-trixie AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p densite-extension -p densite-cli \
 && strip --strip-unneeded target/release/libdensite.so target/release/densite

FROM debian:trixie-slim
# The certificates are for databases of web servers and in buckets.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/densite /usr/bin/
COPY --from=build /src/target/release/libdensite.so /usr/lib/
COPY --from=build /src/include/densite.h /usr/include/
COPY --from=build /src/LICENSE /src/LICENSE-APACHE /src/LICENSE-MIT /usr/share/doc/densite/
WORKDIR /data
ENTRYPOINT ["densite"]
