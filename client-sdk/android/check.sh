#!/usr/bin/env bash
# Checks without the Android NDK that the native library compiles and links for phones and emulators, exports what the
# host's library exports, and calls nothing that Android 8.0 lacks. Installs what is missing, on Debian on a PC.
# The result is not for apps: Android's libraries and the unwinder are stubs, and the C parts used glibc's headers.
# Usage: client-sdk/android/check.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/packages

command -v clang >/dev/null && command -v llvm-ar >/dev/null && [ -d /usr/aarch64-linux-gnu/include ] ||
    need_packages "a C compiler for Android" clang llvm libc6-dev-arm64-cross
made=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$made/android-check
lld=$(rustc --print sysroot)/lib/rustlib/$(rustc --print host-tuple)/bin/rust-lld

# What the library calls. All of it is in Android's lists for API level 26 (libc.map.txt, libm.map.txt and
# libdl.map.txt of bionic), for both processors. Another name does not link: look it up there before you add it.
declare -A names=(
    [libc.so]="__errno __system_property_get abort bind calloc clock_gettime close connect epoll_create1 epoll_ctl
        epoll_wait eventfd fcntl flock free freeaddrinfo fstat fsync ftruncate64 gai_strerror getaddrinfo getauxval
        getcwd getenv getpeername getsockname getsockopt link lseek64 malloc memcmp memcpy memmove memset mkdir mmap
        munmap open poll posix_memalign prctl pthread_attr_destroy pthread_attr_init pthread_attr_setstacksize
        pthread_create pthread_detach pthread_getspecific pthread_join pthread_key_create pthread_key_delete
        pthread_mutex_lock pthread_mutex_unlock pthread_setspecific read readlink realloc realpath recv rename
        renameat sched_getaffinity sched_yield send setsockopt shutdown socket socketpair stat strerror_r strlen
        syscall sysconf unlink write writev"
    [libm.so]="cos exp expf logf pow tanhf"
    [libdl.so]="dl_iterate_phdr dlsym"
    [liblog.so]=""
    # The NDK has the unwinder as a static library, so no phone needs it.
    [libunwind.a]="_Unwind_Backtrace _Unwind_DeleteException _Unwind_FindEnclosingFunction _Unwind_GetCFA
        _Unwind_GetDataRelBase _Unwind_GetIP _Unwind_GetIPInfo _Unwind_GetLanguageSpecificData _Unwind_GetRegionStart
        _Unwind_GetTextRelBase _Unwind_RaiseException _Unwind_Resume _Unwind_SetGR _Unwind_SetIP"
)

stubs() { # target, folder
    local library name object=$2/stub.o
    rm -rf "$2"
    mkdir -p "$2"
    for library in "${!names[@]}"; do
        for name in ${names[$library]}; do
            printf '.globl %s\n.type %s,%%function\n%s:\n' "$name" "$name" "$name"
        done | clang --target="$1" -x assembler -c - -o "$object"
        case $library in
        *.so) "$lld" -flavor gnu -shared -soname "$library" "$object" -o "$2/$library" ;;
        *.a) llvm-ar crs "$2/$library" "$object" ;;
        esac
    done
}

exported() { # library
    readelf --dyn-syms --wide "$1" | awk '$5 == "GLOBAL" && $7 != "UND" { print $8 }' | sort
}

fail() {
    echo "$1" >&2
    exit 1
}

cargo build --locked --quiet -p tributary-ffi --lib --example bindgen
host=$made/debug/libtributary_ffi.so bindgen=$made/debug/examples/bindgen
"$bindgen" kotlin "$host" "$out/host"

check() { # processor, folder of its C headers
    local target=$1-linux-android
    local name=${target//-/_} library=$made/$target/debug/libtributary_ffi.so
    [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || rustup target add "$target"
    stubs "${target}26" "$out/$1"
    env "CC_$name=clang" "AR_$name=llvm-ar" "CFLAGS_$name=--target=${target}26 -isystem $2" \
        "CARGO_TARGET_${name^^}_LINKER=rust-lld" \
        RUSTFLAGS="-C linker-flavor=ld.lld -L native=$out/$1 -C link-arg=-zdefs -C link-arg=-zmax-page-size=16384" \
        cargo build --locked --quiet -p tributary-ffi --lib --target "$target"
    readelf -lW "$library" | awk '$1 == "LOAD" && $NF != "0x4000" { bad = 1 } END { exit bad }' ||
        fail "$library: not for pages of 16 KiB"
    diff <(exported "$host") <(exported "$library") || fail "$library: exports other symbols than the host's"
    "$bindgen" kotlin "$library" "$out/bindings"
    diff -r "$out/host" "$out/bindings" || fail "$library: has other bindings than the host's"
    echo "$target: links against" $(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'), \
        "$(exported "$library" | wc -l) symbols"
}

check aarch64 /usr/aarch64-linux-gnu/include
check x86_64 /usr/include/x86_64-linux-gnu
