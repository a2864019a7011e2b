//! Ranks on the stand-ins for the driver and NCCL. Kernels do not run, so sums over ranks are compared, not products.

use std::env;
use std::process::{self, Command};

use tilewright::matmul::Activation;
use tilewright::models::Mask;
use tilewright::parallel::{
    Column, Combine, CrossEntropy, Error, Experts, Group, Heads, Options, Row, Shards, attention,
};
use tilewright::{DeviceTensor, HostTensor, bf16};

use crate::harness::Fake;

#[path = "../../../bench/gpu/src/parallel/faults.rs"]
mod faults;
#[allow(dead_code)]
#[path = "../../../bench/gpu/src/parallel/reference.rs"]
mod reference;

fn devices(count: usize) -> Fake {
    Fake::new().set("FAKE_DEVICES", count)
}

/// Sums of ranks, with transfers of every kind, eager and in a graph.
#[test]
fn layers_order_their_transfers() {
    for ranks in [1usize, 2, 3] {
        let run = devices(ranks).run(|| {
            let count = env::var("FAKE_DEVICES").unwrap().parse::<usize>().unwrap();
            let all: Vec<usize> = (0..count).collect();
            let mut group = Group::new(&all, Options { blocks: Some(8), ..Options::default() }).unwrap();
            let sums = group.run(|rank, stream| {
                let [m, k, n] = [300, 96, 70];
                let column = Column::new(rank, stream, &HostTensor::<f32, 2>::zeros([n, k])?)?;
                let row = Row::new(rank, stream, &HostTensor::<f32, 2>::zeros([k, n])?)?.with_chunks(3);
                let rows = Shards::new(m, rank.ranks())?.of(rank.rank());
                let own = DeviceTensor::<f32, 1>::zeros(stream, [rows.len() * k])?;
                let own = own.view().reshaped([rows.len(), k], [k, 1]);
                let result =
                    |rows, columns| DeviceTensor::<f32, 2>::for_results(stream, [rows, columns], true);
                let (mut x, mut y) = (result(m, k)?, result(m, k)?);
                let mut between = result(m, column.shards().of(rank.rank()).len())?;
                let (mut terms, mut part) = (result(m, k)?, result(rows.len(), k)?);
                column.run_gathered(rank, stream, own, &mut x, &mut between)?;
                row.run_scattered(rank, stream, &between, &mut terms, &mut part)?;
                row.run_into(rank, stream, &between, &mut y)?;
                let run = || {
                    row.run_into(rank, stream, &between, &mut y).unwrap();
                    Ok(())
                };
                // SAFETY: the tensors live to the end of this function, and only this thread uses them.
                let graph = unsafe { stream.capture(run) }?;
                rank.launch(&graph)?;
                let mut numbers = DeviceTensor::from_host(stream, [2], &[rank.rank() as f32, 1.0])?;
                rank.all_reduce(stream, &mut numbers, Combine::Sum)?;
                rank.synchronize(stream)?;
                Ok(numbers.to_host()?)
            });
            let expected = vec![vec![(count * (count - 1) / 2) as f32, count as f32]; count];
            assert_eq!(sums.unwrap(), expected);
        });
        run.sound();
    }
}

#[test]
fn a_missing_library_is_an_error_that_says_what_to_install() {
    let run = devices(1).set("TILEWRIGHT_NCCL", "/nonexistent").run(|| {
        println!("error: {}", Group::new(&[0], Options::default()).unwrap_err());
    });
    assert_eq!(run.line("error: "), "there is no NCCL here.");
    assert!(run.output.contains("help: install NVIDIA's package `libnccl2`"), "{}", run.text());
}

#[test]
fn ranks_that_differ_have_the_same_error() {
    devices(2)
        .run(|| {
            let mut group = Group::new(&[0, 1], Options::default()).unwrap();
            let error = group.run(|rank, stream| {
                let mut x = DeviceTensor::<f32, 1>::zeros(stream, [3 + rank.rank()])?;
                rank.all_reduce(stream, &mut x, Combine::Sum)
            });
            assert_eq!(
                error.unwrap_err().to_string(),
                "ranks differ: rank 0 calls all_reduce Sum of [3] : [1] f32, and rank 1 calls all_reduce Sum of [4] : [1] f32\nhelp: \
                 all ranks make the same calls in the same order, with the same sizes of whole tensors"
            );
            let error = group.run(|rank, _| match rank.rank() {
                0 => Err(Error::Meeting("an error of the program".into())),
                _ => rank.agree("to begin", Ok(())),
            });
            // The group is still there.
            assert_eq!(error.unwrap_err().to_string(), "an error of the program");
            assert_eq!(group.run(|rank, _| Ok(rank.rank())).unwrap(), [0, 1]);
            let error = group.run(|rank, _| -> Result<(), Error> { panic!("rank {}", rank.rank()) });
            assert!(error.unwrap_err().to_string().ends_with("is lost: it panicked\nhelp: the group has ended; make a new one"));
            assert!(group.run(|_, _| Ok(())).is_err());
            assert!(Heads::new([8, 2], 3).is_ok());
        })
        .sound();
}

/// The text of an error.
fn text<T>(outcome: Result<T, Error>) -> String {
    outcome.err().map_or_else(String::new, |error| error.to_string())
}

#[test]
fn mistakes_say_what_to_give_instead() {
    devices(1)
        .run(|| {
            let mut group = Group::new(&[0], Options::default()).unwrap();
            let texts = group.run(|rank, stream| {
                let zeros = |rows, columns| HostTensor::<f32, 2>::zeros([rows, columns]).unwrap();
                let vector = |count| HostTensor::<f32, 1>::zeros([count]).unwrap();
                let tensor =
                    |rows, columns| DeviceTensor::<f32, 2>::for_results(stream, [rows, columns], true);
                let column = || Column::new(rank, stream, &zeros(6, 4)).unwrap();
                let row = Row::new(rank, stream, &zeros(6, 4))?;
                let relu = column().with_gate(stream, &zeros(6, 4))?.with_activation(Activation::Relu);
                let both = column().with_gate(stream, &zeros(6, 4))?.with_bias(stream, &vector(6))?;
                let (x, mut y) = (tensor(3, 4)?, DeviceTensor::zeros(stream, [3, 6])?);
                let heads = Heads::new([8, 2], 1)?;
                let few = DeviceTensor::<bf16, 1>::zeros(stream, [64])?;
                let head = || few.view().reshaped([1, 64, 1, 1], [64, 1, 64, 64]);
                let mut out = DeviceTensor::<bf16, 1>::zeros(stream, [64])?;
                let out = out.view_mut().reshaped([1, 64, 1, 1], [64, 1, 64, 64]);
                let labels = DeviceTensor::<i32, 1>::zeros(stream, [5])?;
                let experts = DeviceTensor::<f32, 3>::zeros(stream, [2, 3, 4])?;
                let mut texts = vec![
                    text(Column::from_shard(rank, 7, tensor(6, 4)?)),
                    text(column().with_bias(stream, &vector(5))),
                    text(relu.run(stream, &x)),
                    text(both.run(stream, &x)),
                    text(row.run_into(rank, stream, &x, &mut y)),
                    text(attention(stream, &heads.parts(0), 1.0, Mask::None, head(), [head(), head()], out)),
                    text(CrossEntropy::new(rank, 1 << 31, -1)),
                    text(CrossEntropy::new(rank, 4, -1)?.run(rank, stream, &labels, x.view())),
                    text(Experts::from_shard(rank, 2, experts)),
                ];
                let experts = DeviceTensor::from_elements(stream, [2, 1, 4], [4, 4, 1], &[0.0f32; 8])?;
                texts.push(text(Experts::from_shard(rank, 2, experts)?.run(rank, stream, x.view(), &[1, 1])));
                // An exchange without an error, so that the run has none.
                rank.agree("the end", Ok(texts))
            });
            assert_eq!(texts.unwrap()[0], EXPECTED);
        })
        .sound();
}

/// Each mistake and its remedy.
const EXPECTED: &[&str] = &[
    "the weight is 6 x 4, and 7 x 4 is expected\nhelp: give the part of this rank: `shards` of the layer has the parts of all ranks",
    "the bias is 5, and 6 is expected\nhelp: give the part of this rank: `shards` of the layer has the parts of all ranks",
    "a gate has the function silu or gelu\nhelp: choose one of these",
    "a layer with a gate has no bias\nhelp: leave the bias or the gate out",
    "y has gaps or is column-major\nhelp: make it row-major, without gaps",
    "q, k, v and o have [1, 1, 1, 1] heads, and the rank's parts have [8, 2, 2, 8]\nhelp: give the heads of this rank: `Heads` says which they are",
    "a vocabulary of 2147483648, and labels are i32\nhelp: use a vocabulary of less than 2147483648",
    "logits are [3, 4], and this rank's part for the labels is [5, 4]\nhelp: give all rows and the columns of this rank",
    "weights are [2, 3, 4] with strides [1, 2, 6], and this rank has 2 experts\nhelp: give (experts, outputs, inputs), row-major without gaps",
    "x is 3 x 4, with 2 rows for 2 experts, and there are 2 experts of 4 inputs\nhelp: give rows without gaps, sorted by expert, and a count \
     for each expert",
];

/// `FAULTS=1000` makes this many runs.
#[test]
fn a_fault_of_one_rank_is_an_error_of_all() {
    let run = devices(3).run(|| {
        let count = env::var("FAULTS").ok().and_then(|count| count.parse().ok()).unwrap_or(100);
        let tally = faults::in_process(&[0, 1, 2], count, 5, 3, false).unwrap();
        assert!(tally.wrong.is_empty() && tally.runs == count, "{tally:?}");
        println!("groups: {}, longest: {:?}", tally.groups, tally.longest);
    });
    run.check(run.ok, "a fault was missed");
    run.check(run.hazards.is_empty(), "there are hazards");
}

#[test]
fn a_killed_process_is_an_error_of_the_others() {
    let run = devices(2).run(|| {
        if env::var_os("RANK").is_some() {
            let error = faults::work_endlessly().unwrap_err();
            eprintln!("{error}");
            process::exit(3);
        }
        let command = || {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(env::args().skip(1)).env_remove("FAKE_LOG");
            command
        };
        let tally = faults::of_processes(&command, 3, 11).unwrap();
        assert!(tally.wrong.is_empty(), "{tally:?}");
    });
    run.check(run.ok, "a killed process was missed");
}
