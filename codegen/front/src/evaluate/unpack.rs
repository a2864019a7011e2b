//! Numbers of four bits in kernels.

use super::Evaluator;
use super::args::{Args, made_from};
use super::value::Value;
use crate::source::problem::Problem;
use crate::values::narrow::Int4;

impl Evaluator {
    /// `unpack_int4::<i4, bf16>(bytes)`
    pub(super) fn unpack_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let [of, elem] = &args.types[..] else {
            let message = "`unpack_int4` needs two types: of the numbers of four bits, and of the result";
            return Err(Problem::new(message).help(args.usage()));
        };
        let Some(of) = Int4::ALL.into_iter().find(|known| known.name() == of.text) else {
            let problem = Problem::new(format!("`{}` is not a type of four bits", of.text))
                .help("write i4, for -8 to 7, or u4, for 0 to 15");
            return Ok(self.complain(of.span, problem));
        };
        let Some(elem) = self.elem(elem) else { return Ok(Value::Poison) };
        let bytes = args.part(0)?;
        if !self.is_whole(&bytes) {
            return Err(Problem::new(format!(
                "`unpack_int4` takes a whole tile, and `{}`, {}, is the part of one thread",
                bytes.name,
                bytes.shape()
            ))
            .help("unpack the tile before `parallelize`")
            .arg(0));
        }
        let name = made_from(&bytes.name, elem.name());
        let name = args.name_or(&name).to_owned();
        Ok(Value::View(self.builder.unpack(&name, of, &bytes, elem)?))
    }
}
