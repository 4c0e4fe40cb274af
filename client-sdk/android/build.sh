#!/usr/bin/env bash
# Makes the AAR: native libraries for phones and emulators, bindings, and the adapter. Needs the Android NDK in
# ANDROID_NDK_HOME, cargo-ndk, the Rust targets below, and Gradle with the Android SDK.
# Usage: client-sdk/android/build.sh [--native-only]
set -euo pipefail
cd "$(dirname "$0")/../.."
here=client-sdk/android

: "${ANDROID_NDK_HOME:?is missing: the folder of the Android NDK}"
cargo ndk --version >/dev/null 2>&1 || { echo "missing: cargo-ndk. cargo install cargo-ndk" >&2; exit 1; }
# Pages of 16 KiB, which Android 15 asks for.
export RUSTFLAGS="${RUSTFLAGS:-} -C link-arg=-Wl,-z,max-page-size=16384"
cargo ndk --platform 26 --target arm64-v8a --target x86_64 --output-dir "$here/build/jniLibs" \
    build --release --locked -p tributary-ffi

# The bindings are the same for every target. They are made from metadata in the host's library, which a release, being
# stripped, does not have.
RUSTFLAGS= cargo build --locked -p tributary-ffi --lib --example bindgen
case $(uname) in
Darwin) library=libtributary_ffi.dylib ;;
*) library=libtributary_ffi.so ;;
esac
RUSTFLAGS= cargo run --locked -p tributary-ffi --example bindgen -- \
    kotlin "${CARGO_TARGET_DIR:-target}/debug/$library" "$here/build/bindings"

[ "${1:-}" = --native-only ] || gradle --project-dir "$here" assembleRelease
