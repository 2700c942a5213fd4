//! `cargo xtask image`: builds a program that is a machine of its own.
//!
//! Any package may have such programs: a `[[bin]]` that needs the feature `image`. They are built for
//! x86_64-unknown-none where the toolchain has that target; otherwise for the host's Linux target with the same linker
//! script and nothing of the system in the link, which the precompiled core library allows.

use crate::shell::Shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const BARE: &str = "x86_64-unknown-none";
const HOST: &str = "x86_64-unknown-linux-gnu";
const LINKER_SCRIPT: &str = "hal/unikernel/image.ld";

#[derive(clap::Args)]
pub struct Args {
    /// The program, as img_rc_pingpong
    name: String,
    /// Without optimization, with assertions
    #[arg(long)]
    debug: bool,
    /// Without symbols
    #[arg(long)]
    strip: bool,
}

/// How a program is built.
#[derive(Clone, Copy, Default)]
pub struct Build {
    pub debug: bool,
    pub strip: bool,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    let bar = Shell::spinner();
    let shell = Shell::new(workspace.target.join("xtask/log/image.log"), bar.clone())?;
    let target = target(&shell)?;
    let image = build(&workspace, &shell, &args.name, Build { debug: args.debug, strip: args.strip })?;
    bar.finish_and_clear();
    if target == HOST {
        eprintln!("built for {HOST}, freestanding; for the bare target: rustup target add {BARE}");
    }
    println!("{}", image.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds a program and tells where its ELF file is.
pub fn build(workspace: &Workspace, shell: &Shell, name: &str, how: Build) -> Result<PathBuf> {
    let package = workspace.packages.iter().find(|p| p.images.iter().any(|image| image == name));
    let package = package.with_context(|| {
        let all: Vec<&str> = workspace.packages.iter().flat_map(|p| p.images.iter().map(String::as_str)).collect();
        format!("no image is called {name}; there are {}", all.join(", "))
    })?;
    let target = target(shell)?;
    let profile = if how.debug { "image-debug" } else { "image" };
    let script = workspace.root.join(LINKER_SCRIPT);
    let mut cargo = workspace.cargo();
    cargo.args(["rustc", "-p", &package.name, "--bin", name, "--no-default-features", "--features", "image"]);
    cargo.args(["--target", target, "--profile", profile, "--"]).args(flags(target, &script));
    if how.strip {
        // What is loaded is named by the program headers.
        cargo.args(["-Cstrip=symbols", "-Clink-arg=-znosectionheader"]);
    }
    shell.check(&mut cargo)?;
    let image = workspace.target.join(target).join(profile).join(name);
    if !how.strip {
        return Ok(image);
    }
    let stripped = image.with_extension("stripped");
    fs::copy(&image, &stripped).with_context(|| image.display().to_string())?;
    Ok(stripped)
}

/// What only the last step needs: nothing of these reaches the libraries.
fn flags(target: &str, script: &Path) -> Vec<String> {
    let mut flags: Vec<String> = [
        "-Crelocation-model=static",
        "-Clink-arg=--no-pie",
        "-Clink-arg=-static",
        "-Clink-arg=--build-id=none",
        "-Clink-arg=-zmax-page-size=4096",
        // Functions of the same code are one, and so are ends of strings: nobody compares addresses of functions.
        "-Clink-arg=--icf=all",
        "-Clink-arg=-O2",
        // Runs of instructions that stand in several places become functions.
        "-Cllvm-args=-enable-machine-outliner=always",
        // Comparing case by case is shorter than a table of addresses.
        "-Cllvm-args=-min-jump-table-entries=1000",
    ]
    .map(String::from)
    .into();
    flags.push(format!("-Clink-arg=-T{}", script.display()));
    if target == HOST {
        // The compiler's own linker, and no start-up files, C library or red zone.
        flags.extend(["-Clinker=rust-lld", "-Clinker-flavor=ld.lld", "-Cno-redzone=yes"].map(String::from));
    }
    flags
}

/// The target to build for.
fn target(shell: &Shell) -> Result<&'static str> {
    let folder = shell.check(Command::new("rustc").args(["--print", "target-libdir", "--target", BARE]))?;
    // rustc names the folder of a target that it does not have, too.
    let has_core = fs::read_dir(folder.trim()).into_iter().flatten().flatten().any(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("libcore-")
    });
    if has_core {
        return Ok(BARE);
    }
    if shell.check(Command::new("rustc").arg("-vV"))?.lines().any(|line| line == format!("host: {HOST}")) {
        return Ok(HOST);
    }
    bail!("this toolchain does not build for bare x86_64: rustup target add {BARE}")
}
