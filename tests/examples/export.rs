//! Writes kernels with their launch plans as JSON, for `bench/gpu/check.py` on a machine with a GPU.

use std::fmt::Write;

use tilewright_codegen::thread::{Fact, Kernel, Param};
use tilewright_codegen::words::Words;
use tilewright_tests::gallery;

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out + "\""
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn param(param: &Param) -> String {
    match param {
        Param::Pointer { name, elem, write, shape, stride } => {
            let sizes =
                |values: &[tilewright_layout::Value]| list(values.iter().map(|v| quoted(&v.to_string())));
            format!(
                "{{\"kind\": \"pointer\", \"name\": {}, \"elem\": \"{elem}\", \"write\": {write}, \"shape\": {}, \"stride\": {}}}",
                quoted(name),
                sizes(shape),
                sizes(stride)
            )
        }
        Param::Int { symbol, wide, .. } => {
            format!("{{\"kind\": \"int\", \"symbol\": {}, \"wide\": {wide}}}", quoted(symbol.name()))
        }
        Param::Scalar { name, elem } => {
            format!("{{\"kind\": \"scalar\", \"name\": {}, \"elem\": \"{elem}\"}}", quoted(name))
        }
        Param::TensorMap { tensor, tile, modes, swizzle, .. } => format!(
            "{{\"kind\": \"map\", \"tensor\": {tensor}, \"tile\": {}, \"modes\": {}, \"swizzle\": {swizzle}}}",
            list(tile.iter().map(u32::to_string)),
            list(modes.iter().map(u8::to_string))
        ),
    }
}

fn fact(fact: &Fact) -> String {
    match fact {
        Fact::Divides(need) => {
            format!("{{\"divisor\": {}, \"of\": {}}}", need.divisor, quoted(&need.of.to_string()))
        }
        Fact::Aligned { param, bytes } => format!("{{\"param\": {param}, \"bytes\": {bytes}}}"),
        Fact::Small { param, .. } => format!("{{\"small\": {param}}}"),
    }
}

fn variant(source: &str, kernel: &Kernel) -> String {
    let axis = |axis: &Vec<tilewright_layout::Value>| list(axis.iter().map(|v| quoted(&v.to_string())));
    format!(
        "{{\"entry\": {}, \"threads\": {}, \"shared\": {}, \"grid\": {}, \"params\": {}, \"needs\": {}, \"source\": {}}}",
        quoted(&kernel.name),
        kernel.launch.threads,
        kernel.launch.shared_bytes,
        list(kernel.launch.grid.iter().map(axis)),
        list(kernel.params.iter().map(param)),
        list(kernel.needs.iter().map(fact)),
        quoted(source)
    )
}

fn main() {
    let mut text = String::from("[\n");
    // Keys of products as arguments, or the gallery.
    let keys: Vec<String> = std::env::args().skip(1).collect();
    let product = |keys: &String| match Words::read(keys).and_then(Words::matmul) {
        Ok(kernel) => (keys.clone(), kernel),
        Err(mistakes) => panic!("{mistakes}"),
    };
    let all = if keys.is_empty() { gallery::all() } else { keys.iter().map(product).collect() };
    for (i, (name, kernel)) in all.iter().enumerate() {
        let variants = list(kernel.variants.iter().map(|v| variant(&v.source, &v.program)));
        let comma = if i + 1 < all.len() { "," } else { "" };
        let _ = writeln!(text, "{{\"name\": {}, \"variants\": {variants}}}{comma}", quoted(name));
    }
    println!("{text}]");
}
