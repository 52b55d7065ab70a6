#!/bin/bash
# crates.sh DIR [run]
#
# Packages the crates as `cargo publish` would, into target/package, and unpacks them in DIR. Then
# compiles, and with `run` also runs, a project there, outside the workspace, that depends on them as
# a user's project does: it sees only what the packages contain.
set -euo pipefail
[ $# -ge 1 ] || { sed -n 2,6p "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD dir=$(realpath -m "$1") run=${2:-}

published=$(cargo metadata --no-deps --format-version 1 --locked --offline | python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["publish"] != []:
        print(package["name"], package["version"])')
rm -rf target/package/*.crate "$dir"; mkdir -p "$dir/user/src"
cargo package --quiet --no-verify --allow-dirty --offline --locked $(sed 's/^/-p /; s/ [^ ]*$//' <<<"$published")

cd "$dir"
while read -r name version; do
  # In a package all files are of one date, by which cargo would not see that they have changed.
  tar -xmzf "$root/target/package/$name-$version.crate"
  for file in README.md LICENSE-APACHE LICENSE-MIT; do
    [ -f "$name-$version/$file" ] || { echo "the package of $name has no $file" >&2; exit 1; }
  done
done <<<"$published"

# The crates come from here instead of the registry, other dependencies are those of the workspace.
{
  printf '[workspace]\nresolver = "3"\nmembers = ["user", "densite-cli-*", "densite-stream-*"]\n[patch.crates-io]\n'
  while read -r name version; do echo "$name = { path = \"$name-$version\" }"; done <<<"$published"
  # With the same profiles and target, dependencies are not compiled a second time.
  echo; sed -n '/^\[profile/,/^$/p' "$root/Cargo.toml"
} >Cargo.toml
export CARGO_TARGET_DIR=$root/target
cp "$root/Cargo.lock" Cargo.lock
version=$(sed -n 's/^densite //p' <<<"$published")
printf '[package]\nname = "user"\nedition = "2024"\n[dependencies]\ndensite = "%s"\n' "$version" >user/Cargo.toml
cat >user/src/main.rs <<'PROGRAM'
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: user DATABASE")?;
    let con = densite::open(&path)?;
    con.execute_batch("CREATE TABLE vote(user INTEGER, article INTEGER)")?;
    let columns = densite::Columns::new().integers("user", vec![1, 2]).integers("article", vec![10, 20]);
    densite::insert(&con, "vote", columns)?;
    drop(con);
    assert!(densite::check(&path)?.ok());
    println!("{path}: {:?}", densite::info(&path)?.form);
    Ok(())
}
PROGRAM
cargo check --quiet --workspace --offline
[ "$run" != run ] || cargo run --quiet --package user --offline -- "$dir/user.db"
echo "$(wc -l <<<"$published") crates are packaged, and a project outside the workspace compiles with them"
