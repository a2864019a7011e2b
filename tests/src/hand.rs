//! Hand-written thread programs: builds their parameters, shared memory, registers and variables. The
//! simulator's own tests include this file too; it depends on codegen alone.

use tilewright_codegen::Elem;
use tilewright_codegen::index::{Exprs, Int, Ix};
use tilewright_codegen::thread::*;
use tilewright_layout::{Symbol, Value};

/// A program under construction.
pub struct Hand {
    /// The program so far.
    pub k: Kernel,
    bytes: u32,
}

impl Hand {
    /// A program with this number of threads per block.
    pub fn new(name: &str, arch: u32, threads: u32) -> Hand {
        let launch = Launch {
            cost: None,
            grid: Default::default(),
            divided: 0,
            cluster: [1; 3],
            threads,
            shared_bytes: 0,
            blocks_per_sm: 0,
            packs: Vec::new(),
            read_sizes: Vec::new(),
            overlaps: false,
            beside: false,
            persistent: false,
        };
        let k = Kernel {
            name: name.into(),
            arch,
            arch_specific: false,
            launch,
            needs: vec![],
            params: vec![],
            shared: vec![],
            regs: vec![],
            bars: vec![Bar::Block],
            exprs: Exprs::default(),
            vars: vec![],
            sites: vec![Site::default()],
            body: vec![],
        };
        Hand { k, bytes: 0 }
    }

    /// The program with its statements.
    pub fn done(mut self, body: Vec<Stmt>) -> Kernel {
        self.k.launch.shared_bytes = self.bytes;
        self.k.body = body;
        self.k
    }

    /// Its expressions.
    pub fn e(&mut self) -> &mut Exprs {
        &mut self.k.exprs
    }

    /// An integer constant.
    pub fn int(&mut self, n: i64) -> Ix {
        self.e().int(n)
    }

    /// The thread's index in its block.
    pub fn thread(&mut self) -> Ix {
        let last = i64::from(self.k.launch.threads) - 1;
        self.e().leaf(Int::Thread, 0, last, 1, Scope::Thread)
    }

    /// `x*4 + y*128 + … + c`
    pub fn sum(&mut self, terms: &[(Ix, i64)], c: i64) -> Ix {
        let mut total = self.int(0);
        for &(x, n) in terms {
            let n = self.int(n);
            let term = self.e().mul(x, n);
            total = self.e().add(total, term);
        }
        let c = self.int(c);
        self.e().add(total, c)
    }

    /// A tensor.
    pub fn tensor_of(
        &mut self,
        name: &str,
        elem: Elem,
        write: bool,
        shape: Vec<Value>,
        stride: Vec<Value>,
    ) -> Space {
        Space::Global(self.param(Param::Pointer { name: name.into(), elem, write, shape, stride }))
    }

    /// A tensor map over some modes of a tensor.
    pub fn map_of(&mut self, name: &str, tensor: Space, tile: &[u32], modes: &[u8], swizzle: u32) -> Id {
        let Space::Global(tensor) = tensor else { panic!("a map is of a tensor") };
        let (tile, modes) = (tile.to_vec(), modes.to_vec());
        self.param(Param::TensorMap {
            name: name.into(),
            tensor,
            steps: vec![1; tile.len()],
            tile,
            modes,
            swizzle,
        })
    }

    /// An integer parameter.
    pub fn int_param(&mut self, name: &str, hi: i64, wide: bool) -> Ix {
        let id = self.param(Param::Int { name: name.into(), symbol: Symbol::new(name), wide });
        self.e().leaf(Int::Param(id), 1, hi, 1, Scope::Grid)
    }

    /// A parameter.
    pub fn param(&mut self, param: Param) -> Id {
        self.k.params.push(param);
        self.k.params.len() as Id - 1
    }

    /// An array in shared memory, with this alignment in bytes.
    pub fn shared_at(&mut self, name: &str, elem: Elem, len: u32, align: u32, note: &str) -> Space {
        let offset = self.bytes.next_multiple_of(align);
        let array = Shared { name: name.into(), elem, len, offset, align, note: note.into() };
        self.bytes = offset + array.bytes();
        self.k.shared.push(array);
        Space::Shared(self.k.shared.len() as Id - 1)
    }

    /// Mbarriers, one for each slot.
    pub fn mbarriers(&mut self, name: &str, slots: u32, count: u32) -> Id {
        let offset = self.bytes.next_multiple_of(8);
        self.bytes = offset + 8 * slots;
        self.bar({
            let clustered = self.k.launch.cluster.iter().any(|&n| n > 1);
            let scope = if clustered { Scope::Cluster } else { Scope::Block };
            Bar::Mbarriers { name: name.into(), offset, slots, slots_name: None, count, scope }
        })
    }

    /// A barrier.
    pub fn bar(&mut self, bar: Bar) -> Id {
        self.k.bars.push(bar);
        self.k.bars.len() as Id - 1
    }

    /// An array of registers.
    pub fn reg(&mut self, name: &str, elem: Elem, len: u32) -> Id {
        self.k.regs.push(Reg { name: name.into(), elem, len, words: false });
        self.k.regs.len() as Id - 1
    }

    /// A variable with the range of an integer expression.
    pub fn var_of(&mut self, name: &str, [lo, hi]: [i64; 2], multiple: i64, same_for: Scope) -> (Id, Ix) {
        let wide = hi > i64::from(i32::MAX);
        self.k.vars.push(Var { name: name.into(), mutable: false, wide, array: None });
        let id = self.k.vars.len() as Id - 1;
        (id, self.e().leaf(Int::Var(id), lo, hi, multiple, same_for))
    }
}
