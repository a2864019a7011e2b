#!/usr/bin/env bash
# Clean build of a small crate that depends on tilewright with default features, dependencies included.
#   bash bench/build_time.sh
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
    println!("{}", SGEMM.source());
}
RUST
cd "$work"
cp "$here/Cargo.lock" . 2>/dev/null || true
cargo fetch --quiet 2>/dev/null || true
start=$(date +%s.%N)
CARGO_TARGET_DIR="$work/target" cargo build --quiet
end=$(date +%s.%N)
echo "clean build: $(echo "$end - $start" | bc) s on $(nproc) cores"
touch src/main.rs
start=$(date +%s.%N)
CARGO_TARGET_DIR="$work/target" cargo build --quiet
end=$(date +%s.%N)
echo "after a change: $(echo "$end - $start" | bc) s"
