#!/usr/bin/env bash
# Makes build/TributaryFFI.xcframework and the bindings, for Package.swift. Needs macOS with Xcode, and the Rust targets
# below.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=client-sdk/ios
target="${CARGO_TARGET_DIR:-target}"

command -v xcodebuild >/dev/null || { echo "missing: xcodebuild, which comes with Xcode on macOS" >&2; exit 1; }
export IPHONEOS_DEPLOYMENT_TARGET=15.0 MACOSX_DEPLOYMENT_TARGET=12.0
for triple in aarch64-apple-ios aarch64-apple-ios-sim x86_64-apple-ios aarch64-apple-darwin; do
    cargo rustc --release --locked -p tributary-ffi --lib --crate-type staticlib --target "$triple"
done
# The bindings are made from metadata in the library, which a release, being stripped, may lack.
cargo build --locked -p tributary-ffi --lib --example bindgen
rm -rf "$here/build"
mkdir -p "$here/build/Tributary" "$here/build/headers" "$here/build/simulator"
cargo run --locked -p tributary-ffi --example bindgen -- swift "$target/debug/libtributary_ffi.dylib" "$here/build"
mv "$here"/build/*.swift "$here/build/Tributary/"
mv "$here"/build/*FFI.h "$here/build/headers/"
mv "$here"/build/*FFI.modulemap "$here/build/headers/module.modulemap"

# A simulator runs on both kinds of Mac.
lipo -create -output "$here/build/simulator/libtributary_ffi.a" \
    "$target"/{aarch64-apple-ios-sim,x86_64-apple-ios}/release/libtributary_ffi.a
libraries=()
for folder in "$target"/aarch64-apple-{ios,darwin}/release "$here/build/simulator"; do
    libraries+=(-library "$folder/libtributary_ffi.a" -headers "$here/build/headers")
done
xcodebuild -create-xcframework "${libraries[@]}" -output "$here/build/TributaryFFI.xcframework"
