// swift-tools-version:5.9
// `build.sh` makes the XCFramework and the bindings first.

import PackageDescription

let package = Package(
    name: "Tributary",
    platforms: [.iOS(.v15), .macOS(.v12)],  // on macOS, without the parts that need UIKit or BackgroundTasks
    products: [.library(name: "TributaryTraining", targets: ["Tributary", "TributaryTraining"])],
    targets: [
        .binaryTarget(name: "TributaryFFI", path: "build/TributaryFFI.xcframework"),
        // A static library does not say what it needs: the certificates of public CAs are checked by Security.
        .target(name: "Tributary", dependencies: ["TributaryFFI"], path: "build/Tributary",
                linkerSettings: [.linkedFramework("Security")]),
        .target(name: "TributaryTraining", dependencies: ["Tributary"],
                resources: [.copy("PrivacyInfo.xcprivacy")]),
    ]
)
