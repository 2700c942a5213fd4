//! aarch64: the bare crates compile, and post and poll have the barriers of `hal/src/barrier.rs` where they belong.
//!
//! Where the toolchain has no core for aarch64, one is built of the library's source of the same version. The data path
//! that the no-panic gate exports is compiled and disassembled. Of each function only what orders memory is looked at:
//! loads and stores (but of the stack) and barriers. Without any one of the barriers the gate has to fail.

use super::{data_path, scratch};
use crate::debs::once;
use crate::test::{Bench, Tally};
use crate::tools;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const AARCH64: &str = "aarch64-unknown-none";

/// Packages that do not depend on the system; of the last only what does not depend on the processor either.
const PACKAGES: &[&str] = &[
    "bareverbs",
    "bareverbs-hal",
    "bareverbs-mlx5-prm",
    "bareverbs-mlx5",
    "bareverbs-hal-conformance",
    "bareverbs-unikernel",
];

const MANIFEST: &str = "
[lib]
crate-type = [\"staticlib\"]

[profile.release]
lto = \"fat\"
codegen-units = 1
panic = \"abort\"
";

/// What nothing reaches but the linker's search for it.
const PANIC_HANDLER: &str = "
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }
";

/// What a function does to memory, in the order of its code; repeated loads and stores count once.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Load,
    Store,
    /// By its operand: `oshst`.
    Dmb(&'static str),
    Dsb(&'static str),
}
use Does::{Dmb, Dsb, Load, Store};

/// The barriers that are looked for. Any other one is left out, and so is missing where one of these is expected.
const BARRIERS: &[(&str, &str, Does)] =
    &[("dmb", "oshst", Dmb("oshst")), ("dmb", "oshld", Dmb("oshld")), ("dsb", "st", Dsb("st"))];

/// Request, doorbell record, doorbell.
const DOORBELL: &[Does] = &[Store, Dmb("oshst"), Store, Dsb("st"), Store];
/// Request, doorbell record.
const RECORD: &[Does] = &[Store, Dmb("oshst"), Store];
/// Whose an entry is, and then what it holds.
const ENTRY: &[Does] = &[Load, Dmb("oshld"), Load];

/// An exported function, or the end of a function's path, and what has to stand in it. Each is a function of its own by
/// its export, by `inline(never)`, or because it is called from several places.
const EXPECTED: &[(&str, &[Does])] = &[
    ("post_send", DOORBELL),
    ("::post_send_many", DOORBELL),
    ("::post_send_long", DOORBELL),
    ("::blueflame", &[Dsb("st"), Store, Dsb("st")]),
    ("post_recv", RECORD),
    ("::post_recv_many", RECORD),
    ("::post_recv_long", RECORD),
    ("post_srq_recv", RECORD),
    ("::post_many", RECORD),
    ("::post_long", RECORD),
    ("poll", ENTRY),
    ("::poll_many", ENTRY),
    ("::poll_odd", ENTRY),
    ("::CqObject<H,P>::arm", &[Store, Dsb("st"), Store]),
    ("::CommandQueue::post", DOORBELL),
    ("::Control::complete", ENTRY),
    ("::Control::see_events", ENTRY),
];

pub fn run(bench: &Bench) -> Result<Tally> {
    let sysroot = sysroot(bench)?;
    let cargo = |command: &str| {
        let mut cargo = bench.workspace.cargo();
        cargo.args([command, "--release", "--target", AARCH64, "--target-dir"]);
        cargo.arg(bench.workspace.target.join("xtask/aarch64")).env_remove("CARGO_ENCODED_RUSTFLAGS");
        if let Some(sysroot) = &sysroot {
            cargo.env("RUSTFLAGS", format!("--sysroot {}", sysroot.display()));
        }
        cargo
    };
    let mut tally = Tally::default();
    for package in PACKAGES {
        tally.count(bench.shell.check(cargo("check").args(["-p", package])).map(drop));
    }
    let (source, dependencies) = data_path(bench.workspace)?;
    let source = format!("#![no_std]\n{source}{PANIC_HANDLER}");
    let folder = scratch(bench.workspace, "aarch64-data-path", &format!("{MANIFEST}\n{dependencies}"), &source)?;
    fs::copy(bench.workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    bench.shell.check(cargo("build").current_dir(folder))?;
    let library = bench.workspace.target.join(format!("xtask/aarch64/{AARCH64}/release/libaarch64_data_path.a"));
    let objdump = tools::aarch64_objdump(bench.workspace, &bench.shell)?;
    let text = bench.shell.check(objdump.command()?.args(["-d", "-C", "--no-show-raw-insn"]).arg(library))?;
    judge(&text, &mut tally);
    Ok(tally)
}

/// A check for each function, and one for each barrier that is taken out of it.
fn judge(text: &str, tally: &mut Tally) {
    for (name, expected) in EXPECTED {
        let Some(code) = function(text, name) else {
            tally.fail(format!("the object has no function {name}: is it inlined, or called otherwise now?"));
            continue;
        };
        tally.count(check(name, &code, expected));
        for (mnemonic, operand, barrier) in BARRIERS.iter().filter(|(.., barrier)| expected.contains(barrier)) {
            let without: Vec<&str> =
                code.iter().copied().filter(|line| instruction(line) != Some((mnemonic, operand))).collect();
            tally.count(match check(name, &without, expected) {
                Err(_) => Ok(()),
                Ok(()) => Err(anyhow::anyhow!("the gate does not miss {barrier:?} in {name}")),
            });
        }
    }
}

fn check(name: &str, code: &[&str], expected: &[Does]) -> Result<()> {
    let found = reduced(code, expected);
    ensure!(found.windows(expected.len()).any(|w| w == expected), "{name} has to do {expected:?}, it does {found:?}");
    Ok(())
}

/// The lines of a function: those between its heading and the empty line.
fn function<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let is_heading = |line: &str| {
        let path = line.split_once(" <").and_then(|(_, rest)| rest.strip_suffix(">:"));
        path.is_some_and(|path| if name.starts_with("::") { path.ends_with(name) } else { path == name })
    };
    let mut lines = text.lines().skip_while(|line| !is_heading(line));
    lines.next()?;
    Some(lines.take_while(|line| !line.is_empty()).collect())
}

/// Mnemonic and operands of a line `  d8:<tab>dmb<tab>oshst`.
fn instruction(line: &str) -> Option<(&str, &str)> {
    let mut columns = line.split('\t').skip(1);
    Some((columns.next()?.trim(), columns.next().unwrap_or("").trim()))
}

/// What the code does of the kinds that `expected` has, and every barrier.
fn reduced(code: &[&str], expected: &[Does]) -> Vec<Does> {
    let mut found: Vec<Does> = code.iter().filter_map(|line| does(line)).collect();
    found.retain(|does| matches!(does, Dmb(_) | Dsb(_)) || expected.contains(does));
    found.dedup_by(|a, b| a == b && matches!(a, Load | Store));
    found
}

fn does(line: &str) -> Option<Does> {
    let (mnemonic, operands) = instruction(line)?;
    if let Some((.., barrier)) = BARRIERS.iter().find(|(m, o, _)| (*m, *o) == (mnemonic, operands)) {
        return Some(*barrier);
    }
    // Addresses of the stack are nobody else's.
    match mnemonic {
        _ if operands.contains("[sp") => None,
        _ if mnemonic.starts_with("ld") => Some(Load),
        _ if mnemonic.starts_with("st") => Some(Store),
        _ => None,
    }
}

/// A sysroot with a core for aarch64; none if the toolchain has its own.
fn sysroot(bench: &Bench) -> Result<Option<PathBuf>> {
    let rustc = |arguments: &[&str]| {
        let mut rustc = Command::new("rustc");
        bench.shell.check(rustc.current_dir(&bench.workspace.root).args(arguments))
    };
    let folder = rustc(&["--print", "target-libdir", "--target", AARCH64])?;
    // rustc names the folder of a target that it does not have, too.
    if fs::read_dir(folder.trim()).is_ok_and(|mut entries| entries.next().is_some()) {
        return Ok(None);
    }
    let version = rustc(&["-vV"])?;
    let line = |key: &str| version.lines().find_map(|line| line.strip_prefix(key)).context("rustc -vV says less");
    let release = line("release: ")?;
    let component = Path::new(rustc(&["--print", "sysroot"])?.trim()).join("lib/rustlib/src/rust/library");
    let library = if component.is_dir() {
        component
    } else if release.contains('-') {
        bail!("rustc {release} has neither {AARCH64} nor its source: rustup target add {AARCH64}")
    } else {
        tools::rust_library(bench.workspace, &bench.shell, release)
            .with_context(|| format!("no source of Rust {release}'s library; else: rustup target add {AARCH64}"))?
    };
    let sysroot = bench.workspace.target.join("xtask/aarch64-sysroot");
    once(&sysroot, &format!("1 {}", line("commit-hash: ")?), |partial| core_into(bench, &library, partial))?;
    Ok(Some(sysroot))
}

/// Builds core, and an empty compiler_builtins, which every crate names: nothing is linked.
fn core_into(bench: &Bench, library: &Path, sysroot: &Path) -> Result<()> {
    let folder = sysroot.join("lib/rustlib").join(AARCH64).join("lib");
    fs::create_dir_all(&folder)?;
    let builtins = sysroot.join("compiler_builtins.rs");
    fs::write(
        &builtins,
        "#![allow(internal_features)]\n#![feature(compiler_builtins)]\n#![compiler_builtins]\n#![no_std]\n",
    )?;
    for (name, source) in [("core", library.join("core/src/lib.rs")), ("compiler_builtins", builtins)] {
        bench.shell.note(&format!("building {name} for {AARCH64}"));
        let mut rustc = Command::new("rustc");
        // The library uses what only a nightly compiler, or one that is told it builds itself, takes.
        rustc.current_dir(&bench.workspace.root).env("RUSTC_BOOTSTRAP", "1").arg("--sysroot").arg(sysroot);
        rustc.args(["--target", AARCH64, "--crate-name", name, "--crate-type", "rlib", "--edition", "2024", "-O"]);
        rustc.args(["-Cpanic=abort", "-Cembed-bitcode=yes", "-Zforce-unstable-if-unmarked", "--cap-lints", "allow"]);
        bench.shell.check(rustc.arg("--out-dir").arg(&folder).arg(source))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
0000000000000000 <x::not_post_recv>:
   0:\tret

0000000000000010 <x::post_recv>:
  10:\tstr\tx10, [x8, x11, lsl #3]
  14:\tdmb\toshst
  18:\tldr\tx9, [x1, #368]
  1c:\tstr\tw8, [x9]
  20:\tstrb\tw10, [sp, #16]

0000000000000030 <next>:
  30:\tdsb\tst
";

    #[test]
    fn a_function_does_what_orders_memory() {
        let code = function(TEXT, "::post_recv").unwrap();
        assert_eq!(reduced(&code, RECORD), RECORD);
        assert_eq!(reduced(&code, ENTRY), [Dmb("oshst"), Load]);
        assert!(check("post_recv", &code, RECORD).is_ok());
        assert!(check("post_recv", &code, DOORBELL).is_err());
        assert!(function(TEXT, "post_recv").is_none() && function(TEXT, "next").is_some());
    }

    #[test]
    fn a_weaker_barrier_is_none() {
        let weaker = TEXT.replace("oshst", "ishst");
        assert!(check("post_recv", &function(&weaker, "::post_recv").unwrap(), RECORD).is_err());
    }

    #[test]
    fn what_is_not_there_fails() {
        let mut tally = Tally::default();
        judge("", &mut tally);
        assert_eq!((tally.passed, tally.failed), (0, EXPECTED.len()));
    }
}
