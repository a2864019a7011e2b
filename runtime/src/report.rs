//! A kernel's report, completed with the compiler's figures.

use tilewright_program::report::{self, Report};
use tilewright_program::{Generated, cuda};

use crate::nvrtc::{Error, Nvrtc};

/// The report of a kernel's fastest variant with the registers and spills that NVRTC reports on these
/// architectures.
///
/// ```no_run
/// # use tilewright_codegen::Generate;
/// use tilewright_program::Definition;
/// use tilewright_runtime::{nvrtc::Nvrtc, report};
///
/// let kernel = Definition::Matmul(Vec::new()).generate().kernel.unwrap();
/// println!("{}", report::compiled(&Nvrtc::find(&[])?, &kernel, &["sm_80", "sm_90a"])?);
/// # Ok::<(), tilewright_runtime::nvrtc::Error>(())
/// ```
pub fn compiled(nvrtc: &Nvrtc, kernel: &Generated, architectures: &[&str]) -> Result<Report, Error> {
    completed(kernel.report.clone(), nvrtc, kernel, 0, architectures)
}

/// The same of any variant, by its index.
///
/// ```no_run
/// # use tilewright_codegen::Generate;
/// use tilewright_program::Definition;
/// use tilewright_runtime::{nvrtc::Nvrtc, report};
///
/// let kernel = Definition::Matmul(Vec::new()).generate().kernel.unwrap();
/// println!("{}", report::compiled_variant(&Nvrtc::find(&[])?, &kernel, 1, &["sm_80"])?);
/// # Ok::<(), tilewright_runtime::nvrtc::Error>(())
/// ```
#[cfg(feature = "generate")]
pub fn compiled_variant(
    nvrtc: &Nvrtc,
    kernel: &Generated,
    variant: usize,
    architectures: &[&str],
) -> Result<Report, Error> {
    completed(tilewright_codegen::report_of(kernel, variant), nvrtc, kernel, variant, architectures)
}

fn completed(
    mut report: Report,
    nvrtc: &Nvrtc,
    kernel: &Generated,
    variant: usize,
    architectures: &[&str],
) -> Result<Report, Error> {
    let variant = kernel.variant(variant);
    for arch in architectures {
        let compiled = nvrtc.compile(&variant.source, &kernel.name, arch, &[])?;
        let entry = cuda::entry(&variant.program);
        if let Some(usage) = compiled.usage_of(&entry) {
            report.compiled.push(report::Compiled {
                arch: (*arch).to_owned(),
                registers: usage.registers,
                spilled: usage.spill_stores,
                inner: compiled.main_loop(&entry, arch),
            });
        }
    }
    Ok(report)
}
