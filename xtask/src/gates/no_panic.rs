//! No panic on the data path: the linker says so.
//!
//! A `no_std` shared library exports the data path. Its panic handler calls a function that exists nowhere, so the
//! library links only if the optimizer (fat LTO) could throw the handler out: one bounds check left makes the link fail.

use super::{TARGET, data_path, scratch};
use crate::test::{Bench, Tally};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::process::Command;

/// The function that the panic handler calls; the linker names it when it fails.
const UNDEFINED: &str = "bareverbs_panic_is_reachable";

/// Where the verbs are declared, besides in every file of [`VERBS_FOLDER`]: the data path calls each method of each trait.
const VERBS: &[&str] = &["core/src/verbs.rs", "core/src/mw.rs"];
const VERBS_FOLDER: &str = "core/src/verbs";

/// What the data path consists of: each a function that the library exports.
const ENTRY_POINTS: &[&str] = &[
    "post_send",
    "post_recv",
    "post_srq_recv",
    "push",
    "push_keys",
    "poll",
    "view",
    "service",
    "open_and_close",
    "reopen",
    "control",
    "extended",
    "region",
    "tell",
    "through_raw",
    "wire_parse",
    "wire_emit",
];

const PANIC_HANDLER: &str = "
unsafe extern \"C\" { fn bareverbs_panic_is_reachable() -> !; }

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! { unsafe { bareverbs_panic_is_reachable() } }
";

const MANIFEST: &str = "
[lib]
crate-type = [\"cdylib\"]

[profile.release]
lto = \"fat\"
codegen-units = 1
opt-level = 3
panic = \"abort\"
";

/// Reads past a check that the optimizer cannot remove.
const PANICS: &str = "
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn read(ring: *const u32, n: usize, i: usize) -> u32 {
    unsafe { core::slice::from_raw_parts(ring, n)[i] }
}
";

/// The same, masked as ring indices are, and checked once.
const DOES_NOT_PANIC: &str = "
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn read(ring: *const u32, n: usize, i: usize) -> u32 {
    unsafe { core::slice::from_raw_parts(ring, n).get(i).copied().unwrap_or(0) }
}
";

pub fn run(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    tally.count(link(bench, "no-panic-fine", DOES_NOT_PANIC, ""));
    tally.count(refuses(bench, PANICS));
    let (data_path, dependencies) = data_path(bench.workspace)?;
    tally.count(names_all(&data_path));
    tally.count(calls_all(bench, &data_path));
    tally.count(link(bench, "no-panic-data-path", &data_path, &dependencies));
    Ok(tally)
}

/// What leaves an entry point out links all the easier.
fn names_all(data_path: &str) -> Result<()> {
    let is_there = |name: &str| data_path.contains(&format!("extern \"C\" fn {name}("));
    let missing: Vec<_> = ENTRY_POINTS.iter().filter(|name| !is_there(name)).collect();
    ensure!(missing.is_empty(), "xtask/gates/data_path.rs does not export {missing:?}");
    Ok(())
}

/// What leaves a verb out links all the easier too.
fn calls_all(bench: &Bench, data_path: &str) -> Result<()> {
    let root = &bench.workspace.root;
    let mut files: Vec<_> = VERBS.iter().map(|file| root.join(file)).collect();
    for entry in fs::read_dir(root.join(VERBS_FOLDER)).context(VERBS_FOLDER)? {
        files.push(entry?.path());
    }
    let mut missing = Vec::new();
    for file in files {
        let source = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let verbs = methods(&source);
        ensure!(!verbs.is_empty(), "no trait in {}", file.display());
        missing.extend(verbs.into_iter().filter(|verb| !calls(data_path, verb)));
    }
    ensure!(missing.is_empty(), "xtask/gates/data_path.rs does not call {missing:?}");
    let without = data_path.replace(".push_bind(", ".push_(");
    ensure!(!calls(&without, "push_bind"), "a call that is not there is found");
    Ok(())
}

fn calls(data_path: &str, verb: &str) -> bool {
    [".", "::"].iter().any(|before| data_path.contains(&format!("{before}{verb}(")))
}

/// The names of the methods of a file's traits, but for what a trait asks of its user's memory.
fn methods(source: &str) -> Vec<String> {
    let traits = source.split("\npub trait ").skip(1).filter_map(|rest| rest.split("\n}").next());
    let heads = traits.flat_map(|body| body.lines()).filter_map(|line| {
        let line = line.strip_prefix("    ")?;
        line.strip_prefix("fn ").or_else(|| line.strip_prefix("unsafe fn "))
    });
    heads.map(|head| head.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect()
}

/// Shows that the gate refuses a library with one bounds check, and for that reason.
fn refuses(bench: &Bench, source: &str) -> Result<()> {
    let Err(error) = link(bench, "no-panic-bounds-check", source, "") else {
        bail!("the gate lets a bounds check through");
    };
    if !format!("{error:#}").contains(UNDEFINED) {
        return Err(error.context("a bounds check fails for another reason"));
    }
    Ok(())
}

fn link(bench: &Bench, name: &str, source: &str, dependencies: &str) -> Result<()> {
    let source = format!("#![no_std]\n{source}{PANIC_HANDLER}");
    let folder = scratch(bench.workspace, name, &format!("{MANIFEST}\n{dependencies}"), &source)?;
    fs::copy(bench.workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let mut cargo: Command = bench.workspace.cargo();
    cargo.current_dir(folder).args(["build", "--release", "--target", TARGET, "--target-dir"]);
    cargo.arg(bench.workspace.target.join("xtask/no-panic")).env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.env("RUSTFLAGS", "-Clink-arg=-nostartfiles -Clink-arg=-Wl,--no-undefined -Clink-arg=-lc");
    bench.shell.check(&mut cargo).map(drop).context("a panic is reachable, or the gate does not build")
}
