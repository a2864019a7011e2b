//! `matmul_kernel!`: the matrix product family, C = A·Bᵀ. Products are functions of the language (`page`), whose statements are
//! written as its text.
//!
//! Keys are data: their page of the reference, messages and this module read one table.

mod blame;
mod config;
mod hopper;
mod keys;
mod machine;
mod page;
mod plan;
mod product;
mod reader;
mod scales;
mod schedule;
mod tensor;
mod threads;
mod tiles;
mod warps;

use crate::source::ast::{Arg, Kernel, Level, Name};
use crate::source::diagnostic::{Diagnostic, Lint};
use crate::source::problem::Result;
use crate::tile;
use crate::tile::alternative::Width;
use crate::tile::alternative::{Alternative, Policy};
use config::{Config, Precision};
pub use keys::{Key, keys, page, schedule};
use machine::Machine;
use plan::Plan;
use reader::Reader;
pub use schedule::set;

/// The trees of the texts that products are written in. The language's parser reads them: front ends take trees.
#[derive(Debug)]
pub struct Texts {
    tensor_cores: Result<Kernel>,
    cuda_cores: Result<Kernel>,
    /// The keys of [`tiles`].
    tiles: Result<Vec<Vec<Arg>>>,
}

impl Texts {
    /// Reads the texts, by parsers of a page and of keys.
    pub fn read(page: fn(&str) -> Result<Kernel>, keys: fn(&str) -> Result<Vec<Arg>>) -> Texts {
        Texts {
            tensor_cores: page(include_str!("matmul/pages/tensor_cores.rs")),
            cuda_cores: page(include_str!("matmul/pages/cuda_cores.rs")),
            tiles: tiles::texts().map(|text| keys(&text)).collect(),
        }
    }
}

/// The tile programs of a set of keys, and lint levels.
pub struct Programs {
    /// The first program.
    pub wide: tile::Program,
    /// The other programs.
    pub others: Vec<Alternative>,
    /// The levels of lints that the keys set.
    pub levels: Vec<(Name, Level)>,
    /// The instruction and why it was chosen, where the architecture has another one for these types.
    pub why: Option<String>,
    /// Why the product is not multiplied on tensor cores as its types are by default.
    pub instead: Option<Diagnostic>,
}

/// The programs of a set of keys, or the diagnostics if there are none.
pub fn programs(args: &[Arg], texts: &'static Texts) -> std::result::Result<Programs, Vec<Diagnostic>> {
    let (args, mut wrong) = schedule::flat(args);
    let made = of_keys(&args, texts);
    if wrong.is_empty() {
        return made;
    }
    wrong.extend(made.err().into_iter().flatten());
    wrong.sort_by_key(|error| error.span);
    Err(wrong)
}

/// The programs of keys in one list. If no key sets the architecture, tiles, threads or the instruction, each of
/// several architectures has its programs, the newest first.
fn of_keys(args: &[Arg], texts: &'static Texts) -> std::result::Result<Programs, Vec<Diagnostic>> {
    let mut reader = Reader::new(args, texts);
    let Some(architectures) = reader.architectures() else { return of_one(args, texts) };
    let of = |arch: u32| of_one(&[args, &[Arg::of_number("arch", arch.into())]].concat(), texts);
    let mut made = architectures.into_iter().map(of);
    let Some(first) = made.next() else { return of_one(args, texts) };
    made.fold(first, |all, older| match (all, older) {
        (Ok(all), Ok(older)) => Ok(all.and(older)),
        // Another architecture may support a product that one does not.
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
        (Err(_), Err(why)) => Err(why),
    })
}

impl Programs {
    /// The same, and programs for an older architecture.
    fn and(mut self, older: Programs) -> Programs {
        let last: &[Policy] = if older.others.is_empty() { &[Policy::Small, Policy::General] } else { &[] };
        let policies = [&[Policy::Best, Policy::Aligned], last].concat();
        self.others.push(Alternative::new(older.wide, policies));
        self.others.extend(older.others);
        self
    }
}

/// The product as a function of the language, for the newest architecture of its programs; `None` for other products.
pub fn function(args: &[Arg], texts: &'static Texts) -> Option<Kernel> {
    let mut args = schedule::flat(args).0;
    let newest = Reader::new(&args, texts).architectures().and_then(|all| all.first().copied());
    args.extend(newest.map(|arch| Arg::of_number("arch", arch.into())));
    let mut reader = Reader::new(&args, texts);
    let (config, Machine { plans, .. }) = reader.product().ok()?;
    let Some(usual) = plans.last() else {
        return page::threads::page(&config).ok().filter(|_| !tiles::suit(&reader, &config));
    };
    if usual.is_wgmma() {
        return page::page(&config, &plans).ok();
    }
    // The usual sizes are the last. Programs with a ring come first.
    let bulk = |plan: &Plan| tensor::bulk(&config, plan);
    let all = if bulk(usual).is_some() { plans.iter().filter_map(bulk).collect() } else { plans };
    let usual = all.last()?;
    // Have their functions the same statements?
    let of_steps = config.group.is_some() || config.block_scales;
    let alike = all.iter().rev().filter(|plan| !of_steps || plan.step() == usual.step());
    page::page(&config, &alike.cloned().collect::<Vec<_>>()).ok()
}

impl Reader<'_> {
    /// The values of the keys, and the instruction.
    fn product(&mut self) -> std::result::Result<(Config, Machine), Vec<Diagnostic>> {
        let config = self.config(false);
        let mut diagnostics = self.diagnostics();
        diagnostics.extend(self.levels().iter().filter_map(|(name, _)| Lint::unknown(name)));
        diagnostics.sort_by_key(|d| d.span);
        let Some(config) = config.filter(|_| diagnostics.is_empty()) else { return Err(diagnostics) };
        match self.machine(&config) {
            Ok(machine) if self.errors.is_empty() => Ok((config, machine)),
            made => {
                self.errors.extend(made.err());
                Err(self.diagnostics())
            }
        }
    }
}

/// The programs of keys for one architecture, the default unless a key gives it.
fn of_one(args: &[Arg], texts: &'static Texts) -> std::result::Result<Programs, Vec<Diagnostic>> {
    let mut reader = Reader::new(args, texts);
    let (config, machine) = reader.product()?;
    let levels = reader.levels();
    let why = reader.instead_of_wgmma(&config, &machine);
    let stages = reader.find("stages").map(|stages| stages.span);
    let Machine { plans, instead } = machine;
    let (mut wide, mut others) = match plans.first() {
        None => by_threads(&reader, &config).map_err(|wrong| vec![instead.clone().unwrap_or(wrong)])?,
        Some(plan) if plan.is_wgmma() => by_wgmma(&config, &plans).map_err(|wrong| vec![wrong])?,
        Some(_) => by_warps(&mut reader, &config, &plans).map_err(|wrong| vec![wrong])?,
    };
    let instead = instead.filter(|_| plans.is_empty());
    // Too many stages of tiles are an error about the key.
    let programs = others.iter_mut().map(|other| &mut other.program).chain([&mut wide]);
    for tensor in programs.flat_map(|program| &mut program.tensors) {
        tensor.span = stages.unwrap_or(tensor.span);
    }
    Ok(Programs { wide, others, levels, why, instead })
}

/// A result whose error has a span, a key's if the language reports it there.
type Made<T> = std::result::Result<T, Diagnostic>;

/// The first program, and the others.
type All = (tile::Program, Vec<Alternative>);

/// The product on CUDA cores.
fn by_threads(reader: &Reader<'_>, config: &Config) -> Made<All> {
    let wide = product::program(config, reader.args)?;
    if !tiles::suit(reader, config) {
        let narrow = narrow(reader.args, config).map(Alternative::last);
        return Ok((wide, narrow.into_iter().collect()));
    }
    // The plain kernel serves every launch.
    let (first, mut others) = tiles::programs(reader.args, config)?;
    others.push(Alternative::last(wide));
    Ok((first, others))
}

/// The product by mma.sync, and where copies of operands suit other instructions or bulk copies, of copies.
fn by_warps(reader: &mut Reader<'_>, config: &Config, plans: &[Plan]) -> Made<All> {
    let (wide, mut others) = tensor::among(config, plans)?;
    if let Some((copies, plans)) = reader.wgmma_of_copies(config) {
        others.splice(..0, tiles_of_wgmma(&copies, &plans)?);
    } else if let Some((copies, plans)) = reader.mma_sync_of_copies(config)? {
        others.splice(..0, tensor::of_copies(&copies, &plans)?);
    }
    Ok((wide, others))
}

/// The product by wgmma, in one variant for each of some sizes, and by mma.sync where bulk copies do not
/// support operands.
fn by_wgmma(config: &Config, plans: &[Plan]) -> Made<All> {
    // Keys are about the tiles of wgmma.
    let mut reader = Reader::new(&[], config.texts);
    // Tiles of the author's choice are multiplied by wgmma wherever that is possible.
    let measured = plans.iter().all(|plan| plan.shipped);
    let plan = reader.by_mma_sync(config)?;
    let mut narrower = tensor::by_threads(config, &plan, measured)?;
    // Where bulk copies fill a ring, wgmma is faster, unless it has to wait for conversions.
    if config.mixed() && tensor::bulk(config, &plan).is_some() {
        narrower.insert(0, (tensor::widest(config, &plan, measured)?, Width::WIDEST));
    }
    let row = plan.row.filter(|_| measured);
    let few = row.filter(|_| config.mixed()).map_or_else(Vec::new, |row| tensor::others(config, row));
    // Tiles in one term take less time after copies of rows along K.
    let single = row.filter(|_| config.is_in_terms());
    let single = single.map_or(Ok(Vec::new()), |row| tensor::single(config, row))?;
    let of_few = |plan| Ok(Alternative::aligned(tensor::widest(config, plan, measured)?));
    let few = few.iter().map(of_few).collect::<Made<Vec<_>>>()?;
    let mut others = tiles_of_wgmma(config, plans)?;
    let wide = others.remove(0).program;
    // Programs whose threads store C.
    let direct = others.split_off(plans.len() - 1);
    others.extend(few);
    // 64-bit offsets, and leading dimensions of C that bulk copies do not support.
    let width = Width::WIDEST;
    others.push(Alternative::new(wide.clone(), vec![Policy::General]).wide(width));
    others.extend(direct);
    others.extend(single);
    others.extend(Alternative::narrower(narrower));
    Ok((wide, others))
}

/// The product by wgmma in tiles of some sizes: one program for each, and more for results that bulk copies do not store.
fn tiles_of_wgmma(config: &Config, plans: &[Plan]) -> Made<Vec<Alternative>> {
    let programs = page::programs(config, plans)?;
    // Threads that store single elements have guards and addresses in registers. A bias, C, scales, and sums of
    // single steps take registers, too.
    let scaled = config.scales.contains(&true);
    let many =
        config.bias.is_some() || scaled || config.alpha_beta || config.has_matrices() || config.promotes();
    let suits = |at: &usize| {
        let plan = &plans[*at];
        plan.is_common(config) && (!many || plan.leaves_registers(config))
    };
    let direct: Vec<usize> = (0..plans.len()).filter(suits).collect();
    let direct = if direct.is_empty() { vec![0] } else { direct };
    let direct: Vec<Alternative> =
        direct.into_iter().map(|at| Alternative::new(programs[at].clone(), vec![Policy::Small])).collect();
    Ok(programs.into_iter().map(Alternative::aligned).chain(direct).collect())
}

/// The product with copies of single elements, partitioned so that they are coalesced. `None` if its
/// copies are coalesced already, or if the keys do not allow it.
fn narrow(args: &[Arg], config: &Config) -> Option<tile::Program> {
    if config.copies.iter().all(|copied| copied.of.vec == 1) {
        return None;
    }
    let mut reader = Reader::new(args, config.texts);
    let config = reader.config(true).filter(|_| reader.errors.is_empty())?;
    product::program(&config, args).ok()
}
