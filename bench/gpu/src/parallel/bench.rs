//! A column layer and a row layer, 8192 → 28672 → 8192 in bf16, for 8192 and for 64 rows.

use std::time::{Duration, Instant};

use tilewright::matmul::Matmul;
use tilewright::parallel::{Column, Combine, Error, Group, Options, Rank, Row};
use tilewright::runtime::Graph;
use tilewright::{Device, DeviceTensor, Stream, bf16};

use crate::reference::Random;
use crate::{Anything, capture};

const WIDTH: usize = 8192;
const HIDDEN: usize = 28672;
const REPEATS: usize = 7;

/// What is measured of a pair of layers at one rank.
struct Pair {
    column: Column<bf16>,
    rows: Vec<(Option<usize>, Row<bf16>)>,
    x: DeviceTensor<bf16, 2>,
    between: DeviceTensor<bf16, 2>,
    y: DeviceTensor<bf16, 2>,
    down: DeviceTensor<bf16, 2>,
}

fn upload(stream: &Stream, pool: &[bf16], extents: [usize; 2]) -> Result<DeviceTensor<bf16, 2>, Error> {
    let count = extents[0] * extents[1];
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        values.extend_from_slice(&pool[..pool.len().min(count - values.len())]);
    }
    Ok(DeviceTensor::from_host_row_major(stream, extents, &values)?)
}

impl Pair {
    fn new(
        rank: &Rank,
        stream: &Stream,
        pool: &[bf16],
        m: usize,
        chunks: &[Option<usize>],
    ) -> Result<Pair, Error> {
        let part = tilewright::parallel::Shards::new(HIDDEN, rank.ranks())?.of(rank.rank()).len();
        let column = Column::from_shard(rank, HIDDEN, upload(stream, pool, [part, WIDTH])?)?;
        let mut rows = Vec::new();
        for count in chunks {
            // One weight would do, but a layer has its own.
            let row = Row::from_shard(rank, HIDDEN, upload(stream, pool, [WIDTH, part])?)?;
            rows.push((*count, if let Some(count) = count { row.with_chunks(*count) } else { row }));
        }
        Ok(Pair {
            column,
            rows,
            x: upload(stream, pool, [m, WIDTH])?,
            between: DeviceTensor::for_results(stream, [m, part], true)?,
            y: DeviceTensor::for_results(stream, [m, WIDTH], true)?,
            down: upload(stream, pool, [WIDTH, part])?,
        })
    }

    fn run(&mut self, rank: &mut Rank, stream: &Stream, which: usize) -> Result<(), Error> {
        self.column.run_into(stream, &self.x, &mut self.between)?;
        self.rows[which].1.run_into(rank, stream, &self.between, &mut self.y)
    }

    /// The products without sums over ranks.
    fn products(&mut self, stream: &Stream) -> Result<(), Error> {
        self.column.run_into(stream, &self.x, &mut self.between)?;
        Matmul::new().run_into(stream, &self.between, self.down.view().transposed(), &mut self.y)?;
        Ok(())
    }
}

/// A median of times of one launch, in microseconds.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The time of one of several launches of a graph.
fn graph_time(rank: &mut Rank, stream: &Stream, graph: &Graph, count: usize) -> Result<f64, Error> {
    rank.launch(graph)?;
    rank.synchronize(stream)?;
    let ((), time) = stream.time(|| (0..count).try_for_each(|_| graph.launch()))?;
    Ok(time.as_secs_f64() * 1e6 / count as f64)
}

/// The time of one of several calls, as the host sees it.
fn eager_time(
    rank: &mut Rank,
    stream: &Stream,
    count: usize,
    mut work: impl FnMut(&mut Rank) -> Result<(), Error>,
) -> Result<f64, Error> {
    work(rank)?;
    rank.synchronize(stream)?;
    let start = Instant::now();
    (0..count).try_for_each(|_| work(rank))?;
    stream.synchronize()?;
    Ok(start.elapsed().as_secs_f64() * 1e6 / count as f64)
}

/// Names and times in microseconds, of the slowest rank.
type Times = Vec<(String, f64)>;

fn measure(
    devices: &[usize],
    pool: &[bf16],
    m: usize,
    blocks: Option<u32>,
    chunks: &[Option<usize>],
) -> Result<Times, Error> {
    let options = Options { blocks, timeout: Duration::from_secs(60), ..Options::default() };
    let mut group = Group::new(devices, options)?;
    let count = if m > 1000 { 4 } else { 100 };
    let all = group.run(|rank, stream| {
        let mut pair = Pair::new(rank, stream, pool, m, chunks)?;
        let mut times = Times::new();
        let mut graphs = Vec::new();
        pair.products(stream)?;
        graphs.push(("products alone".to_string(), capture(stream, || pair.products(stream))?));
        if rank.ranks() > 1 {
            let mut y = DeviceTensor::<bf16, 2>::zeros(stream, [m, WIDTH])?;
            rank.all_reduce(stream, &mut y, Combine::Sum)?;
            rank.synchronize(stream)?;
            let graph = capture(stream, || rank.all_reduce(stream, &mut y, Combine::Sum))?;
            let alone =
                (0..REPEATS).map(|_| graph_time(rank, stream, &graph, count)).collect::<Result<_, _>>()?;
            times.push(("all-reduce alone".into(), median(alone)));
        }
        for which in 0..pair.rows.len() {
            let name = match pair.rows[which].0 {
                Some(count) => format!("pair, chunks {count}"),
                None => "pair, chunks by rule".into(),
            };
            let eager = (0..3).map(|_| eager_time(rank, stream, count, |rank| pair.run(rank, stream, which)));
            times.push((format!("{name}, eager"), median(eager.collect::<Result<_, _>>()?)));
            match capture(stream, || pair.run(rank, stream, which)) {
                Ok(graph) => graphs.push((name, graph)),
                Err(error) => println!("no graph of {name}: {error}"),
            }
        }
        let mut repeats: Vec<Vec<f64>> = vec![Vec::new(); graphs.len()];
        for _ in 0..REPEATS {
            for (graph, repeats) in graphs.iter().zip(&mut repeats) {
                repeats.push(graph_time(rank, stream, &graph.1, count)?);
            }
        }
        times.extend(graphs.into_iter().zip(repeats).map(|((name, _), repeats)| (name, median(repeats))));
        Ok(times)
    })?;
    let slowest = |at: usize| all.iter().map(|times| times[at].1).fold(0.0, f64::max);
    Ok(all[0].iter().enumerate().map(|(at, (name, _))| (name.clone(), slowest(at))).collect())
}

pub(crate) fn run() -> Anything<bool> {
    let mut random = Random(7);
    let pool: Vec<bf16> = (0..1 << 22).map(|_| bf16::from_f32(random.unit() as f32)).collect();
    let mut lines = String::new();
    for m in [8192, 64] {
        let one = measure(&[0], &pool, m, None, &[Some(1)])?;
        let base = one
            .iter()
            .filter(|(name, _)| name.starts_with("pair"))
            .map(|(_, time)| *time)
            .fold(f64::MAX, f64::min);
        show(&mut lines, m, 1, None, &one, base);
        if Device::all()?.len() < 2 {
            println!("two devices are needed for the rest; there is one");
            continue;
        }
        let chunks = if m > 1000 { &[Some(1), Some(2), Some(4), Some(8), None][..] } else { &[Some(1)] };
        for blocks in if m > 1000 { &[None, Some(4), Some(8), Some(16)][..] } else { &[None] } {
            let two = measure(&[0, 1], &pool, m, *blocks, chunks)?;
            show(&mut lines, m, 2, *blocks, &two, base);
        }
    }
    if let Some(folder) = std::env::var_os("OUT") {
        std::fs::write(std::path::Path::new(&folder).join("parallel.json"), &lines)?;
    }
    Ok(true)
}

/// Prints times, and the speed as a multiple of one device.
fn show(lines: &mut String, rows: usize, devices: usize, blocks: Option<u32>, times: &Times, base: f64) {
    let time_of = |wanted: &str| times.iter().find(|(name, _)| name == wanted).map(|(_, time)| *time);
    let alone = time_of("products alone").zip(time_of("all-reduce alone"));
    for (name, time) in times {
        let mut text = format!("{rows} rows, devices {devices}, blocks {blocks:?}, {name}: {time:.1} us");
        if name.starts_with("pair") {
            text += &format!(", {:.3} of one device", base / time);
            if let Some((products, sums)) = alone {
                text +=
                    &format!(", {:.0} % of the all-reduce hidden", 100.0 * (1.0 - (time - products) / sums));
            }
        }
        println!("{text}");
        *lines += &format!(
            "{{\"rows\": {rows}, \"devices\": {devices}, \"blocks\": {}, \"name\": \"{name}\", \"us\": {time:.2}}}\n",
            blocks.map_or("null".into(), |blocks| blocks.to_string())
        );
    }
}
