#!/usr/bin/env bash
# Elapsed seconds and processor seconds (user and system) of clean builds of a small crate that depends on tilewright with default features,
# dependencies included, and the size of its program. Without incremental compilation, as for crates of a registry.
#   bash bench/build_time.sh [check] [debug] [debug-without-info] [release] [release-without-lto]
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src"
cat > "$work/Cargo.toml" <<TOML
[package]
name = "small"
version = "0.0.0"
edition = "2024"

[dependencies]
tilewright = { path = "$here" }

[workspace]
TOML
cat > "$work/src/main.rs" <<'RUST'
use tilewright::prelude::*;

const SGEMM: MatmulKernel<f32> = matmul_kernel!(bm = 128, bn = 128, bk = 8, tc = (16, 16));

fn main() {
    let (m, n, k) = (70, 45, 20);
    let (a, b) = (vec![0.5f32; m * k], vec![2.0f32; n * k]);
    let all = [Arg::tensor(&a, [m, k]), Arg::tensor(&b, [n, k]), Arg::output::<f32>([m, n])];
    println!("{}", SGEMM.simulate(&all).unwrap());
}
RUST
cd "$work"
cp "$here/Cargo.lock" . 2>/dev/null || true
cargo fetch --quiet 2>/dev/null || true
export CARGO_INCREMENTAL=0
unset CARGO_PROFILE_DEV_DEBUG
[ $# -gt 0 ] || set -- check debug debug-without-info release release-without-lto
for what in "$@"; do
    case $what in
        check) command=(check) folder= ;;
        debug) command=(build) folder=debug ;;
        debug-without-info) command=(build --config 'profile.dev.package."*".debug=false') folder=debug ;;
        release) command=(build --release) folder=release ;;
        release-without-lto) command=(build --release --config 'profile.release.lto="off"') folder=release ;;
        *) echo "error: \`$what\` is not one of check, debug, debug-without-info, release, release-without-lto" >&2; exit 1 ;;
    esac
    TIMEFORMAT="%R %U %S"
    seconds=$({ time cargo "${command[@]}" --quiet --target-dir "$work/$what" >&2; } 2>&1 | tail -1)
    size=
    [ -z "$folder" ] || size=", $(($(stat -c %s "$work/$what/$folder/small") / 1000000)) MB"
    echo "$what: $(echo "$seconds" | awk '{ print $1 " s, processor " $2 + $3 " s" }')$size"
    rm -rf "${work:?}/$what"
done
