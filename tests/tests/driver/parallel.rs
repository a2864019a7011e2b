//! Ranks on the stand-ins for the driver and NCCL. Kernels do not run, so sums over ranks are compared, not products.

use std::env;
use std::process::{self, Command};

use tilewright::parallel::{Column, Combine, Error, Group, Heads, Options, Row, Shards};
use tilewright::runtime::cudarc::driver::result::device;
use tilewright::{DeviceTensor, HostTensor};

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
            let count = device::get_count().unwrap() as usize;
            let all: Vec<usize> = (0..count).collect();
            let mut group = Group::new(&all, Options { blocks: Some(8), ..Options::default() }).unwrap();
            let sums = group.run(|rank, stream| {
                let [m, k, n] = [300, 96, 70];
                let column = Column::new(rank, stream, &HostTensor::<f32, 2>::zeros([n, k])?)?;
                let row = Row::new(rank, stream, &HostTensor::<f32, 2>::zeros([k, n])?)?.with_chunks(3);
                let rows = Shards::new(m, rank.ranks())?.of(rank.rank());
                let own = DeviceTensor::<f32, 1>::zeros(stream, [rows.len() * k])?;
                let own = own.view().reshaped([rows.len(), k], [k, 1]);
                let result = |rows, columns| DeviceTensor::<f32, 2>::for_results(stream, [rows, columns], true);
                let (mut x, mut y) = (result(m, k)?, result(m, k)?);
                let mut between = result(m, column.shards().of(rank.rank()).len())?;
                let (mut terms, mut part) = (result(m, k)?, result(rows.len(), k)?);
                column.run_gathered(rank, stream, own, &mut x, &mut between)?;
                row.run_scattered(rank, stream, &between, &mut terms, &mut part)?;
                row.run_into(rank, stream, &between, &mut y)?;
                // SAFETY: the tensors live to the end of this function, and only this thread uses them.
                let graph = unsafe { stream.capture(|| Ok(row.run_into(rank, stream, &between, &mut y).unwrap())) }?;
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
