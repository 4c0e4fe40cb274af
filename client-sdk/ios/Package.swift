// swift-tools-version:5.9
// `build.sh` makes the XCFramework and the bindings first.

import PackageDescription

let package = Package(
    name: "Tributary",
    platforms: [.iOS(.v15), .macOS(.v12)],
    products: [.library(name: "TributaryTraining", targets: ["Tributary", "TributaryTraining"])],
    targets: [
        .binaryTarget(name: "TributaryFFI", path: "build/TributaryFFI.xcframework"),
        .target(name: "Tributary", dependencies: ["TributaryFFI"], path: "build/Tributary"),
        .target(name: "TributaryTraining", dependencies: ["Tributary"]),
    ]
)
