// The AAR. `build.sh` makes the native libraries and the bindings first.

plugins {
    id("com.android.library") version "8.13.0"
    id("org.jetbrains.kotlin.android") version "2.2.20"
    `maven-publish`
}

android {
    namespace = "tributary.android"
    compileSdk = 36
    defaultConfig {
        minSdk = 26
        consumerProguardFiles("consumer-rules.pro")
    }
    sourceSets["main"].kotlin.srcDirs("src/main/kotlin", "build/bindings")
    sourceSets["main"].jniLibs.srcDir("build/jniLibs")
    publishing { singleVariant("release") { withSourcesJar() } }
}

// `gradle publishToMavenLocal`, or `publish` to a repository that the app's build names.
publishing {
    publications.register<MavenPublication>("release") {
        groupId = "org.tributary"
        artifactId = "tributary-android"
        version = "0.1.0"
        afterEvaluate { from(components["release"]) }
    }
}

kotlin { jvmToolchain(17) }

dependencies {
    api("androidx.work:work-runtime-ktx:2.10.5")
    implementation("net.java.dev.jna:jna:5.17.0@aar")
}
