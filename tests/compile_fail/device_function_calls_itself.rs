use tilewright::prelude::*;

#[device]
fn factorial(n: i32) -> i32 {
    if n <= 1 { 1 } else { n * factorial(n - 1) }
}

#[device]
fn power(x: f32, n: i32) -> f32 {
    use self::power;
    if n == 0 { 1.0 } else { x * power(x, n - 1) }
}

mod other {
    use tilewright::prelude::*;

    #[device]
    pub fn soft(x: f32) -> f32 {
        max(x, 0.0)
    }
}

#[device]
fn soft(x: f32) -> f32 {
    use crate::other::soft;
    soft(x) + 1.0
}

fn main() {}
