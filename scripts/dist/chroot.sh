# To be sourced in the root of the checkout, as root. Debian systems of their own, in target/chroots:
# what a package finds on a computer without Rust, Python packages or anything else of ours.

# system NAME SUITE PACKAGE...: makes target/chroots/NAME, the release SUITE of Debian with these
# packages, unless it has them. FOREIGN names other architectures of the packages.
system() {
  local name=$1 suite=$2 dir=target/chroots/$1 need="$*"
  [ "$(id -u)" = 0 ] || { echo "a Debian system in $dir needs root; run this as root" >&2; return 1; }
  [ "$(cat "$dir.made" 2>/dev/null)" != "$need" ] || return 0
  shift 2
  rm -rf "$dir" "$dir.made"; mkdir -p target/chroots
  echo "making Debian $suite in $dir" >&2
  again debootstrap --variant=minbase --include=ca-certificates "$suite" "$dir" >"$dir.log"
  cp /etc/resolv.conf "$dir/etc"
  cp /etc/ssl/certs/ca-certificates.crt "$dir/etc/ssl/certs"
  mkdir -p "$dir/src" "$dir/registry"
  inside "$name" sh -ec '
    for arch in '"${FOREIGN:-}"'; do dpkg --add-architecture $arch; done
    apt-get update -q; DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"; apt-get clean' sh "$@" >>"$dir.log" 2>&1 ||
    { tail -n 20 "$dir.log" >&2; return 1; }
  echo "$need" >"$dir.made"
}

# inside NAME COMMAND...: runs a command there. /src is the checkout, and cargo finds the crates that
# were fetched outside. The mounts end with the command.
inside() {
  local dir=target/chroots/$1; shift
  unshare --mount sh -ec '
    dir=$1 registry=$2; shift 2
    mount --bind . "$dir/src"
    [ ! -d "$registry" ] || mount --bind "$registry" "$dir/registry"
    mount -t proc proc "$dir/proc"
    mount --rbind /dev "$dir/dev"
    exec chroot "$dir" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=/build "$@"
  ' sh "$dir" "${CARGO_HOME:-$HOME/.cargo}/registry" sh -ec '
    mkdir -p /root/.cargo; [ -e /root/.cargo/registry ] || ln -s /registry /root/.cargo/registry
    cd /src; exec "$@"' sh "$@"
}

# cross_system: the system named cross, which has what builds for machines other than this one: Rust's
# standard library for aarch64, and its source, from which cargo compiles that for musl. All is of
# Debian's stable release, because the index of an unstable one expires within days on a slow mirror.
cross_system() {
  FOREIGN=arm64 system cross trixie cargo-web rustc-web libstd-rust-web-dev:arm64 rust-web-src gcc libc6-dev crossbuild-essential-arm64 qemu-user \
    sqlite3:arm64 tcl8.6-dev:arm64 zlib1g-dev:arm64 make dpkg-dev python3 musl
}

# zigbuild TARGET [OPTION...]: builds the extension and the command there, with the variables of
# zigbuild_env. Needs tools.sh.
zigbuild_env=()
zigbuild() {
  inside cross env CARGO_ZIGBUILD_ZIG_PATH="/src${zig#"$PWD"}" CARGO_ZIGBUILD_CACHE_DIR=/build/zigbuild ZIG_GLOBAL_CACHE_DIR=/build/zig \
    "${zigbuild_env[@]}" /src/target/dist-tools/bin/cargo-zigbuild zigbuild --release --locked -p densite-extension -p densite-cli --target "$@"
}
