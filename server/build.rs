//! A new migration rebuilds this crate, which embeds the folder.

fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
