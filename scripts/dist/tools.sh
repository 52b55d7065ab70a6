# To be sourced in the root of the checkout, after scripts/again.sh and scripts/environment.sh. Puts
# cargo's commands zigbuild and deb on the PATH, and makes target/wheel-tools. All is in target.
#
# zig links for glibc 2.28, that of Debian 10 and Red Hat 8.
glibc=2.28
environment target/wheel-tools python/build-requirements.txt hatchling
environment target/dist-tools scripts/dist/requirements.txt ziglang
zig=$(echo "$PWD"/target/dist-tools/lib/python3.*/site-packages/ziglang/zig)
export CARGO_ZIGBUILD_ZIG_PATH=$zig
PATH="$PWD/target/dist-tools/bin:$PATH"

deb_version=3.8.0
[ "$(target/cargo-deb/bin/cargo-deb --version 2>/dev/null)" = "cargo-deb $deb_version" ] || {
  echo "installing cargo-deb $deb_version into target/cargo-deb, because make dist needs it" >&2
  again cargo install --quiet cargo-deb --debug --locked --version "$deb_version" --root target/cargo-deb --target-dir target/cargo-deb/build
  rm -rf target/cargo-deb/build
}
PATH="$PWD/target/cargo-deb/bin:$PATH"
