//! Tells the compiler whether the linked SQLite is built with the preupdate hook. A build without it
//! lacks the functions, so naming them would be an error of the linker.

fn main() {
    println!("cargo:rerun-if-env-changed=LIBSQLITE3_FLAGS");
    println!("cargo:rustc-check-cfg=cfg(preupdate_hook)");
    let flags = std::env::var("LIBSQLITE3_FLAGS").unwrap_or_default();
    if flags.contains("SQLITE_ENABLE_PREUPDATE_HOOK") {
        println!("cargo:rustc-cfg=preupdate_hook");
    }
}
