//! aarch64: the bare crates compile, and post and poll have the barriers of `hal/src/barrier.rs` where they belong.
//!
//! Where the toolchain has no core for aarch64, one is built of the library's source of the same version. The data path
//! that the no-panic gate exports is compiled and disassembled. Of each function only what orders memory is looked at:
//! loads and stores (but of the stack) and barriers. Without any one of the barriers the gate has to fail.

use super::{data_path, scratch};
use crate::debs::once;
use crate::test::{Bench, Tally};
use crate::tools;
use anyhow::{Context, Result, anyhow, bail, ensure};
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

/// Functions that do one thing, however the driver divides it among them.
struct Family {
    name: &'static str,
    /// The start of the last part of their paths, or of the last two.
    starts: &'static [&'static str],
    /// How many of them have a barrier: who adds one, or lets the compiler put two into one, counts anew.
    count: usize,
    /// What has to stand in each that has a barrier.
    does: &'static [Does],
}

const fn family(name: &'static str, starts: &'static [&'static str], count: usize, does: &'static [Does]) -> Family {
    Family { name, starts, count, does }
}

const FAMILIES: &[Family] = &[
    family("post to a send queue", &["post_send"], 4, DOORBELL),
    family("post to a receive queue", &["post_recv"], 4, RECORD),
    family("post to an SRQ", &["post_srq_recv", "post_many"], 3, RECORD),
    family("poll", &["poll", "CqRing::take"], 3, ENTRY),
    family("arm a CQ", &["arm"], 1, &[Store, Dsb("st"), Store]),
    family("BlueFlame", &["blueflame"], 1, &[Dsb("st"), Store, Dsb("st")]),
    family("post a command", &["CommandQueue::post"], 1, DOORBELL),
    family("complete a command", &["Control::complete"], 1, ENTRY),
    family("take events", &["see_events"], 1, ENTRY),
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

/// A check for each family, and one for each barrier that is taken out of one of its functions.
fn judge(text: &str, tally: &mut Tally) {
    for family in FAMILIES {
        let functions = family.functions(text);
        tally.count(family.check(&functions));
        for (i, (name, code)) in functions.iter().enumerate() {
            for (mnemonic, operand, barrier) in BARRIERS.iter().filter(|(.., barrier)| family.does.contains(barrier)) {
                let mut without = functions.clone();
                without[i].1 =
                    code.iter().copied().filter(|line| instruction(line) != Some((mnemonic, operand))).collect();
                tally.count(match family.check(&without) {
                    Err(_) => Ok(()),
                    Ok(()) => Err(anyhow!("the gate does not miss {barrier:?} in {name}")),
                });
            }
        }
    }
}

/// A function's path and its lines.
type Function<'a> = (&'a str, Vec<&'a str>);

impl Family {
    /// The functions of the family that have a barrier.
    fn functions<'a>(&self, text: &'a str) -> Vec<Function<'a>> {
        let mut found = functions(text);
        found.retain(|(path, code)| self.is(path) && has_barrier(code));
        found
    }

    fn is(&self, path: &str) -> bool {
        let mut parts = path.rsplitn(3, "::");
        let (last, before) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let two = format!("{before}::{last}");
        self.starts.iter().any(|start| if start.contains("::") { two == *start } else { last.starts_with(start) })
    }

    fn check(&self, functions: &[Function]) -> Result<()> {
        let with_barrier = functions.iter().filter(|(_, code)| has_barrier(code));
        let names: Vec<&str> = with_barrier.map(|(name, _)| *name).collect();
        ensure!(names.len() == self.count, "{}: {} functions with a barrier, not {names:?}", self.name, self.count);
        for (name, code) in functions {
            let (found, does) = (reduced(code, self.does), self.does);
            ensure!(found.windows(does.len()).any(|w| w == does), "{name} has to do {does:?}, it does {found:?}");
        }
        Ok(())
    }
}

fn has_barrier(code: &[&str]) -> bool {
    code.iter().any(|line| matches!(does(line), Some(Dmb(_) | Dsb(_))))
}

/// All functions: a heading `0123 <path>:`, and the lines from there to an empty one.
fn functions(text: &str) -> Vec<Function<'_>> {
    let mut found: Vec<Function> = vec![];
    for line in text.lines() {
        let heading = line.split_once(" <").and_then(|(_, rest)| rest.strip_suffix(">:"));
        match (heading, found.last_mut()) {
            (Some(path), _) => found.push((path, vec![])),
            (None, Some((_, code))) => code.push(line),
            (None, None) => {}
        }
    }
    found
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

    const RECEIVE: Family = family("post", &["post_recv"], 1, RECORD);

    #[test]
    fn a_function_does_what_orders_memory() {
        let found = RECEIVE.functions(TEXT);
        let [(path, code)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((*path, reduced(code, RECORD)), ("x::post_recv", RECORD.to_vec()));
        assert_eq!(reduced(code, ENTRY), [Dmb("oshst"), Load]);
        assert!(RECEIVE.check(&found).is_ok());
        assert!(family("post", &["post_recv"], 1, DOORBELL).check(&found).is_err());
        assert!(family("post", &["post_recv"], 2, RECORD).check(&found).is_err());
    }

    #[test]
    fn names_are_the_last_parts() {
        let one = family("", &["Queue::post", "arm"], 1, RECORD);
        assert!(one.is("a::Queue::post") && one.is("a::arm") && one.is("arm_all"));
        assert!(!one.is("a::Queue::post_all") && !one.is("a::post") && !one.is("arm::a"));
    }

    #[test]
    fn a_weaker_barrier_is_none() {
        let weaker = TEXT.replace("oshst", "ishst");
        assert!(RECEIVE.check(&RECEIVE.functions(&weaker)).is_err());
    }

    #[test]
    fn what_is_not_there_fails() {
        let mut tally = Tally::default();
        judge("", &mut tally);
        assert_eq!((tally.passed, tally.failed), (0, FAMILIES.len()));
    }
}
