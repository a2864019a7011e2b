//! Kernels with gathers and scatters, and random numbers.

use tilewright::KernelDef;
use tilewright::prelude::*;

/// All of them, by name.
pub fn all() -> Vec<(&'static str, KernelDef)> {
    vec![
        ("max_pool", max_pool().def().clone()),
        ("bilinear", bilinear().def().clone()),
        ("compact", compact().def().clone()),
        ("histogram", histogram().def().clone()),
        ("life", life().def().clone()),
        ("coo", coo().def().clone()),
        ("philox", philox().def().clone()),
    ]
}

/// The upper half of a product.
#[device]
pub fn high(a: u32, b: u32) -> u32 {
    mul_high(a, b)
}

/// The largest of windows of 3×3 whose distance is 2, with a border of 1.
#[kernel]
pub fn max_pool(
    x: &Tensor<f32, (H, W, C), (ldx, _1, sx)>,
    y: &mut Tensor<f32, { (ceil_div(H, 2), ceil_div(W, 2), C) }, (ldy, _1, sy)>,
) {
    let y = tile(y, (8, 32, 1), (block.x, block.y, block.z))[(_, _, 0)];
    let mut most = full::<f32>((8, 32), f32::NEG_INFINITY);
    for di in 0..3 {
        for dj in 0..3 {
            most = map((most, y), |m, _, at| {
                let (r, c) = (2 * at.0 + di - 1, 2 * at.1 + dj - 1);
                if (r >= 0) & (r < H) & (c >= 0) & (c < W) { max(m, x[(r, c, block.z)]) } else { m }
            });
        }
    }
    copy(most, y);
}

/// An image at another size, interpolated between pixels.
#[kernel]
pub fn bilinear(x: &Tensor<f32, (H, W), (ldx, _1)>, y: &mut Tensor<f32, (P, Q), (ldy, _1)>) {
    let out = tile(y, (8, 32), (block.x, block.y));
    let sy = H as f32 / P as f32;
    let sx = W as f32 / Q as f32;
    map(out, out, |_, at| {
        let v = max((at.0 as f32 + 0.5) * sy - 0.5, 0.0);
        let u = max((at.1 as f32 + 0.5) * sx - 0.5, 0.0);
        let (i, j) = (floor(v) as i32, floor(u) as i32);
        let (i1, j1) = (min(i + 1, H - 1), min(j + 1, W - 1));
        let (fv, fu) = (v - i as f32, u - j as f32);
        let top = x[(i, j)] * (1.0 - fu) + x[(i, j1)] * fu;
        let bottom = x[(i1, j)] * (1.0 - fu) + x[(i1, j1)] * fu;
        top * (1.0 - fv) + bottom * fv
    });
}

/// The positive elements, packed to the front of each tile, and their number.
#[kernel]
pub fn compact(x: &Tensor<f32, N>, count: &mut Tensor<i32, _1>, y: &mut Tensor<f32, N>) {
    let x = tile(x, 256, block.x);
    let keep = map(x, |x| (x > 0.0) as i32);
    let at = scan(keep, 0, |a, b| a + b, exclusive = true);
    scatter((x, at, keep), y, |x, a, k| (if k == 1 { block.x * 256 + a } else { -1 }, x));
    scatter(keep, count, |k| (0, k), how = "atomic_add");
}

/// How often each byte occurs, counted in shared memory.
#[kernel]
pub fn histogram(x: &Tensor<u8, N>, bins: &mut Tensor<i32, _256>) {
    let counts = shared::<i32>(256);
    fill(counts, 0);
    scatter(tile(x, 1024, block.x), counts, |x| (x as i32, 1), how = "atomic_add");
    copy(counts, tile(bins, 256, 0), how = "atomic_add");
}

/// A generation of Conway's game of life on a torus.
#[kernel]
pub fn life(x: &Tensor<u8, (H, W), (ldx, _1)>, y: &mut Tensor<u8, (H, W), (ldy, _1)>) {
    let out = tile(y, (8, 64), (block.x, block.y));
    map(out, out, |_, at| {
        let (u, d) = ((at.0 + H - 1) % H, (at.0 + 1) % H);
        let (l, r) = ((at.1 + W - 1) % W, (at.1 + 1) % W);
        let n = x[(u, l)]
            + x[(u, at.1)]
            + x[(u, r)]
            + x[(at.0, l)]
            + x[(at.0, r)]
            + x[(d, l)]
            + x[(d, at.1)]
            + x[(d, r)];
        ((n == 3) | ((n == 2) & (x[(at.0, at.1)] == 1))) as u8
    });
}

/// y += A x for a sparse matrix of triples.
#[kernel]
pub fn coo(
    row: &Tensor<i32, Z>,
    col: &Tensor<i32, Z>,
    val: &Tensor<f32, Z>,
    x: &Tensor<f32, N>,
    y: &mut Tensor<f32, M>,
) {
    let (row, col, val) = (tile(row, 256, block.x), tile(col, 256, block.x), tile(val, 256, block.x));
    scatter((row, col, val), y, |r, c, v| (r, v * x[(c)]), how = "atomic_add");
}

/// Random numbers from counters, two rounds of Philox, and dropout by them.
#[kernel]
pub fn philox(key: u32, keep: f32, x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, bits: &mut Tensor<u32, N>) {
    use self::high;
    let x = tile(x, 1024, block.x);
    let step = |(c0, c1, c2, c3), (k0, k1)| {
        let (h0, h1) = (high(0xD2511F53, c0), high(0xCD9E8D57, c2));
        (h1 ^ c1 ^ k0, 0xCD9E8D57 * c2, h0 ^ c3 ^ k1, 0xD2511F53 * c0)
    };
    let (r, out) = map(x, |x, at| {
        let c = (at.0 as u32 >> 2, 0 as u32, 0 as u32, 0 as u32);
        let c = step(c, (key, 0 as u32));
        let c = step(c, (key + 0x9E3779B9, 0xBB67AE85 as u32));
        let lane = at.0 & 3;
        let r = if lane == 0 {
            c.0
        } else if lane == 1 {
            c.1
        } else if lane == 2 {
            c.2
        } else {
            c.3
        };
        (r, if (r >> 8) as f32 / 16777216.0 < keep { x / keep } else { 0.0 })
    });
    copy(r, tile(bits, 1024, block.x));
    copy(out, tile(y, 1024, block.x));
}
