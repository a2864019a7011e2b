//! `matmul_kernel!`: the matrix product family, C = A·Bᵀ. Products on tensor cores, and most on CUDA cores, are functions
//! of the language (`page`), others programs of the builder (`product`).
//!
//! Keys are data: their page of the reference, messages and this module read one table.

mod blame;
mod config;
mod hopper;
mod keys;
mod machine;
mod page;
mod product;
mod reader;
mod scales;
mod schedule;
mod tensor;
mod threads;
mod tiles;
mod warps;

use crate::front::evaluate::Keys;
use crate::source::ast::{Arg, Kernel, Level, Name, Span};
use crate::source::diagnostic::{Diagnostic, Lint};
use crate::source::problem::Problem;
use crate::tile;
use crate::tile::alternative::Width;
use crate::tile::alternative::{Alternative, Policy};
use config::{Config, Precision};
pub use keys::{Key, keys, page, schedule};
use machine::Machine;
use page::By;
use reader::Reader;
pub(crate) use schedule::set;

/// The tile programs of a set of keys, diagnostics, and lint levels.
pub(crate) struct Programs {
    pub(crate) wide: tile::Program,
    pub(crate) others: Vec<Alternative>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) levels: Vec<(Name, Level)>,
    /// The instruction and why it was chosen, where the architecture has another one for these types.
    pub(crate) why: Option<String>,
    /// Why the product is not multiplied on tensor cores as its types are by default.
    pub(crate) instead: Option<Diagnostic>,
}

/// The programs of a set of keys, or the diagnostics if there are none.
pub(crate) fn programs(args: &[Arg]) -> std::result::Result<Programs, Vec<Diagnostic>> {
    let (args, mut wrong) = schedule::flat(args);
    let made = of_keys(&args);
    if wrong.is_empty() {
        return made;
    }
    wrong.extend(made.err().into_iter().flatten());
    wrong.sort_by_key(|error| error.span);
    Err(wrong)
}

/// The programs of keys in one list. If no key sets the architecture, tiles, threads or the instruction, each of
/// several architectures has its programs, the newest first.
fn of_keys(args: &[Arg]) -> std::result::Result<Programs, Vec<Diagnostic>> {
    let mut keys = Keys::new();
    let mut reader = Reader { args, keys: &mut keys, errors: Vec::new() };
    let Some(architectures) = reader.architectures() else { return of_one(args) };
    let of = |arch: u32| of_one(&[args, &[Arg::of_number("arch", arch.into())]].concat());
    let mut made = architectures.into_iter().map(of);
    let Some(first) = made.next() else { return of_one(args) };
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
pub(crate) fn function(args: &[Arg]) -> Option<Kernel> {
    let mut args = schedule::flat(args).0;
    let mut keys = Keys::new();
    let mut reader = Reader { args: &args, keys: &mut keys, errors: Vec::new() };
    let newest = reader.architectures().and_then(|all| all.first().copied());
    args.extend(newest.map(|arch| Arg::of_number("arch", arch.into())));
    let mut keys = Keys::new();
    let mut reader = Reader { args: &args, keys: &mut keys, errors: Vec::new() };
    let mut config = reader.config(false)?;
    let machine = reader.machine(&config);
    if !reader.errors.is_empty() {
        return None;
    }
    let with_rings;
    let all: Vec<By> = match &machine {
        Machine::Wgmma(sizes) => {
            config.overlaps |= reader.find("overlaps").is_none();
            sizes.iter().map(By::Warpgroups).collect()
        }
        // The usual sizes are the last. Programs with a ring come first.
        Machine::MmaSync(plans, _) => {
            let bulk = |plan: &tensor::Plan| tensor::bulk(&config, plan).ok().flatten();
            with_rings = plans.iter().filter_map(bulk).collect::<Vec<_>>();
            let all = if plans.last().and_then(bulk).is_some() { &with_rings } else { plans };
            let usual = all.last()?;
            all.iter().rev().filter(|plan| plan.is_alike(usual, &config)).map(By::Warps).collect()
        }
        Machine::Threads(_) if !tiles::suit(&reader, &config) => {
            return Some(page::threads::page(&config));
        }
        _ => return None,
    };
    page::page(&config, &all).ok()
}

/// The programs of keys for one architecture, the default unless a key gives it.
fn of_one(args: &[Arg]) -> std::result::Result<Programs, Vec<Diagnostic>> {
    let mut keys = Keys::new();
    let mut reader = Reader { args, keys: &mut keys, errors: Vec::new() };
    let config = reader.config(false);
    let (mut diagnostics, levels) = (std::mem::take(&mut reader.errors), reader.levels());
    diagnostics.extend(levels.iter().filter_map(|(name, _)| Lint::unknown(name)));
    diagnostics.append(&mut keys.diagnostics());
    diagnostics.sort_by_key(|d| d.span);
    let Some(config) = config.filter(|_| diagnostics.is_empty()) else {
        return Err(diagnostics);
    };
    let mut reader = Reader { args, keys: &mut keys, errors: Vec::new() };
    let machine = reader.machine(&config);
    if !reader.errors.is_empty() {
        let mut errors = std::mem::take(&mut reader.errors);
        errors.append(&mut reader.keys.diagnostics());
        // Errors that have been reported are not reported again.
        errors.retain(|error| !error.message.is_empty());
        return Err(errors);
    }
    let why = reader.instead_of_wgmma(&config, &machine);
    let instead = match machine {
        Machine::Threads(instead) => instead,
        Machine::MmaSync(plans, _) => {
            let wrong = |problem: Problem| vec![problem.at(Span::default())];
            let (wide, mut others) = tensor::among(&config, &plans).map_err(wrong)?;
            if let Some((mut copies, sizes)) = reader.wgmma_of_copies(&config) {
                copies.overlaps |= reader.find("overlaps").is_none();
                let of_copies = tiles_of_wgmma(&copies, &sizes).map_err(wrong)?;
                others.splice(..0, of_copies);
            } else if let Some((copies, plans)) = reader.mma_sync_of_copies(&config).map_err(wrong)? {
                others.splice(..0, tensor::of_copies(&copies, &plans).map_err(wrong)?);
            }
            return Ok(Programs { wide, others, diagnostics, levels, why, instead: None });
        }
        Machine::Wgmma(sizes) => {
            // One block fills a multiprocessor.
            let overlaps = config.overlaps || reader.find("overlaps").is_none();
            return by_wgmma(args, config, overlaps, &sizes, levels);
        }
    };
    // The keys are about tensor cores, not about the threads of a product without them.
    let unfit = |wrong: Diagnostic| vec![instead.clone().unwrap_or(wrong)];
    let (mut wide, mut others) = (product::program(&config, args).map_err(unfit)?, Vec::new());
    if tiles::suit(&reader, &config) {
        // Blocks nearly fill a multiprocessor. The plain kernel serves every launch.
        let overlaps = config.overlaps || (config.arch >= 90 && reader.find("overlaps").is_none());
        let wrong = |problem: Problem| vec![problem.at(Span::default())];
        let (first, more) = tiles::programs(args, &Config { overlaps, ..config }).map_err(wrong)?;
        others = more;
        others.push(Alternative::last(std::mem::replace(&mut wide, first)));
    } else {
        others.extend(narrow(args, &config).map(Alternative::last));
    }
    Ok(Programs { wide, others, diagnostics, levels, why, instead })
}

/// Keys about the tiles of a product by wgmma.
const OF_WGMMA: [&str; 8] = ["bm", "bn", "bk", "stages", "cluster", "split_k", "band", "ping_pong"];

/// The product by wgmma, in one variant for each of some sizes, and by mma.sync where bulk copies do not
/// support operands.
fn by_wgmma(
    args: &[Arg],
    mut config: Config,
    overlaps: bool,
    sizes: &[hopper::Sizes],
    levels: Vec<(Name, Level)>,
) -> std::result::Result<Programs, Vec<Diagnostic>> {
    let of_tiles = |arg: &&Arg| {
        let key = arg.name.as_ref().map_or("", |name| &*name.text);
        key != "mma" && !OF_WGMMA.contains(&key)
    };
    let plain: Vec<Arg> = args.iter().filter(of_tiles).cloned().collect();
    let mut keys = Keys::new();
    let mut reader = Reader { args: &plain, keys: &mut keys, errors: Vec::new() };
    let wrong = |problem: Problem| vec![problem.at(Span::default())];
    // Tiles of the author's choice are multiplied by wgmma wherever that is possible.
    let measured = sizes.iter().all(|sizes| sizes.shipped);
    let plan = reader.by_mma_sync(&config).map_err(wrong)?;
    let mut plans = if measured && config.mixed() { reader.with_others(&config, plan) } else { vec![plan] };
    let plan = plans.pop().ok_or_else(Vec::new)?;
    let mut narrower = tensor::programs(&config, &plan, measured).map_err(wrong)?;
    // Where bulk copies fill a ring, wgmma is faster, unless it has to wait for conversions.
    narrower.retain(|(program, _)| config.mixed() || !tensor::has_producer(program));
    let mut few = Vec::new();
    for plan in &plans {
        few.push(tensor::programs(&config, plan, measured).map_err(wrong)?.swap_remove(0));
    }
    config.overlaps = overlaps;
    let mut others = tiles_of_wgmma(&config, sizes).map_err(wrong)?;
    let wide = others.remove(0).program;
    // Programs whose threads store C.
    let direct = others.split_off(sizes.len() - 1);
    let of_few = |(program, width)| Alternative::new(program, vec![Policy::Aligned]).wide(width);
    others.extend(few.into_iter().map(of_few));
    // 64-bit offsets, and leading dimensions of C that bulk copies do not support.
    let width = Width::WIDEST;
    others.push(Alternative::new(wide.clone(), vec![Policy::General]).wide(width));
    others.extend(direct);
    others.extend(Alternative::narrower(narrower));
    Ok(Programs { wide, others, diagnostics: Vec::new(), levels, why: None, instead: None })
}

/// The product by wgmma in tiles of some sizes: one program for each, and more for results that bulk copies do not store.
fn tiles_of_wgmma(
    config: &Config,
    sizes: &[hopper::Sizes],
) -> crate::source::problem::Result<Vec<Alternative>> {
    let all: Vec<By> = sizes.iter().map(By::Warpgroups).collect();
    let page = page::page(config, &all)?;
    let program = |by: &By| page::program(&page, config, *by);
    let programs = all.iter().map(program).collect::<crate::source::problem::Result<Vec<_>>>()?;
    let of = |at: usize, width: Width, policy: Policy| {
        Alternative::new(programs[at].clone(), vec![policy]).wide(width)
    };
    // Threads that store single elements have guards and addresses in registers. A bias, C, scales, and sums of
    // single steps take registers, too.
    let scaled = config.scales.contains(&true);
    let many =
        config.bias.is_some() || scaled || config.alpha_beta || config.has_matrices() || config.promotes();
    let suits = |at: &usize| {
        let sizes = &sizes[*at];
        sizes.is_common() && (!many || sizes.leaves_registers(config))
    };
    let direct: Vec<usize> = (0..sizes.len()).filter(suits).collect();
    let direct = if direct.is_empty() { vec![0] } else { direct };
    let bulk = (0..sizes.len()).map(|at| of(at, Width::WIDEST, Policy::Aligned));
    Ok(bulk.chain(direct.into_iter().map(|at| of(at, Width::ONE, Policy::Small))).collect())
}

/// The product with copies of single elements, partitioned so that they are coalesced. `None` if its
/// copies are coalesced already, or if the keys do not allow it.
fn narrow(args: &[Arg], config: &Config) -> Option<tile::Program> {
    if config.vec == [1, 1] {
        return None;
    }
    let mut keys = Keys::new();
    let mut reader = Reader { args, keys: &mut keys, errors: Vec::new() };
    let config = reader.config(true).filter(|_| reader.errors.is_empty())?;
    product::program(&config, args).ok()
}
