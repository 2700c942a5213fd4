//! No `alloc`, no `std`: the bare crates are checked against a sysroot that has neither.
//!
//! The sysroot is a folder of links to only `libcore` and `libcompiler_builtins` of the toolchain. Naming the target
//! keeps the flag from procedural macros and build scripts, which may use all of the standard library.

use super::{BARE, TARGET, scratch};
use crate::test::{Bench, Tally};
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn run(bench: &Bench) -> Result<Tally> {
    let sysroot = sysroot(bench)?;
    let mut tally = Tally::default();
    tally.count(passes(bench, &sysroot, "no-alloc-core", "#![no_std]\npub fn f() -> Option<u8> { None }\n"));
    tally.count(fails(
        bench,
        &sysroot,
        "alloc",
        "#![no_std]\nextern crate alloc;\npub fn f() -> alloc::vec::Vec<u8> { alloc::vec![1] }\n",
    ));
    tally.count(fails(bench, &sysroot, "std", "pub fn f() -> u8 { 1 }\n"));
    for package in BARE {
        let mut cargo = check(bench, &sysroot);
        cargo.current_dir(&bench.workspace.root).args(["-p", package]);
        tally.count(bench.shell.check(&mut cargo).map(drop));
    }
    Ok(tally)
}

/// Links the two libraries that are always there into a sysroot of their own.
fn sysroot(bench: &Bench) -> Result<PathBuf> {
    let real =
        bench.shell.check(Command::new("rustc").current_dir(&bench.workspace.root).args(["--print", "sysroot"]))?;
    let libraries = Path::new("lib/rustlib").join(TARGET).join("lib");
    let from = Path::new(real.trim()).join(&libraries);
    let sysroot = bench.workspace.target.join("xtask/no-alloc-sysroot");
    let to = sysroot.join(&libraries);
    if sysroot.exists() {
        fs::remove_dir_all(&sysroot)?;
    }
    fs::create_dir_all(&to)?;
    let mut linked = 0;
    for entry in fs::read_dir(&from).with_context(|| format!("no {TARGET} in this toolchain"))? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        let wanted = text.starts_with("libcore-") || text.starts_with("libcompiler_builtins-");
        if wanted && (text.ends_with(".rlib") || text.ends_with(".rmeta")) {
            symlink(from.join(&name), to.join(&name))?;
            linked += 1;
        }
    }
    if linked < 2 {
        bail!("found {linked} libraries in {}", from.display());
    }
    Ok(sysroot)
}

/// `cargo check` with the sysroot, in a target folder of its own so that it throws nothing else out.
fn check(bench: &Bench, sysroot: &Path) -> Command {
    let mut cargo = bench.workspace.cargo();
    cargo.env("RUSTFLAGS", format!("--sysroot {}", sysroot.display()));
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.args(["check", "--target", TARGET, "--target-dir"]).arg(bench.workspace.target.join("xtask/no-alloc"));
    cargo
}

fn passes(bench: &Bench, sysroot: &Path, name: &str, source: &str) -> Result<()> {
    let folder = scratch(bench.workspace, name, "", source)?;
    bench
        .shell
        .check(check(bench, sysroot).current_dir(folder))
        .map(drop)
        .context("the gate refuses a crate that is fine")
}

/// Shows that the gate refuses a crate, and for its reason: it needs the library `missing`.
fn fails(bench: &Bench, sysroot: &Path, missing: &str, source: &str) -> Result<()> {
    let folder = scratch(bench.workspace, &format!("no-alloc-{missing}"), "", source)?;
    let finished = bench.shell.run(check(bench, sysroot).current_dir(folder))?;
    if finished.status.success() {
        bail!("the gate lets a crate through that uses {missing}");
    }
    if !finished.text.contains(&format!("can't find crate for `{missing}`")) {
        bail!("a crate that uses {missing} fails for another reason:\n{}", finished.complaint());
    }
    Ok(())
}
