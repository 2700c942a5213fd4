//! The outside programs that the tests use: from `PATH` where they are good enough, else out of Debian packages.

use crate::debs::{Recipe, Root};
use crate::shell::{Shell, on_path};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

#[derive(clap::Args)]
pub struct Args {
    name: Name,
    /// Arguments for the tool
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Name {
    Tshark,
    /// A Python that has scapy
    Scapy,
    /// QEMU with vfio-user-pci
    Qemu,
    /// Debian 12's QEMU
    #[value(name = "qemu-7.2")]
    Qemu72,
    Valgrind,
    Mksquashfs,
    Chromium,
}

/// `cargo xtask tool`: gets a tool and runs it.
pub fn main(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    let bar = Shell::spinner();
    let shell = Shell::new(workspace.target.join("xtask/log/tool.log"), bar.clone())?;
    let get = match args.name {
        Name::Tshark => tshark,
        Name::Scapy => scapy,
        Name::Qemu => qemu,
        Name::Qemu72 => qemu_7_2,
        Name::Valgrind => valgrind,
        Name::Mksquashfs => mksquashfs,
        Name::Chromium => chromium,
    };
    let tool = get(&workspace, &shell)?;
    bar.finish_and_clear();
    let status = tool.command()?.args(&args.arguments).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The version that the tests were written for.
const CARGO_MUTANTS: &str = "27.1.0";

/// A program that can be started.
pub enum Tool {
    OnPath(PathBuf),
    /// A program of an unpacked root, with the arguments and variables by which it finds its files there.
    Unpacked {
        root: Root,
        program: &'static str,
        arguments: Vec<String>,
        variables: Vec<(&'static str, String)>,
    },
}

impl Tool {
    pub fn command(&self) -> Result<Command> {
        match self {
            Self::OnPath(program) => Ok(Command::new(program)),
            Self::Unpacked { root, program, arguments, variables } => {
                let mut command = root.command(program)?;
                command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
                Ok(command)
            }
        }
    }
}

/// tshark 4.0 or later: its InfiniBand dissector reads RoCE and ERF.
pub fn tshark(workspace: &Workspace, shell: &Shell) -> Result<Tool> {
    if let Some(program) = on_path("tshark")
        && version(shell, Command::new(&program).arg("--version"))? >= (4, 0)
    {
        return Ok(Tool::OnPath(program));
    }
    let root = Recipe { name: "tshark", suites: &["bookworm"], packages: &["tshark"] }.unpack(workspace, shell)?;
    let data = root.join("usr/share/wireshark").display().to_string();
    Ok(Tool::Unpacked {
        root,
        program: "usr/bin/tshark",
        arguments: vec![],
        variables: vec![("WIRESHARK_DATA_DIR", data)],
    })
}

/// A Python that has scapy with its RoCE layer.
pub fn scapy(workspace: &Workspace, shell: &Shell) -> Result<Tool> {
    if let Some(program) = on_path("python3")
        && shell.run(Command::new(&program).args(["-c", "import scapy.contrib.roce"]))?.status.success()
    {
        return Ok(Tool::OnPath(program));
    }
    let root =
        Recipe { name: "scapy", suites: &["bookworm"], packages: &["python3-scapy"] }.unpack(workspace, shell)?;
    let variables = vec![
        ("PYTHONHOME", root.join("usr").display().to_string()),
        ("PYTHONNOUSERSITE", "1".into()),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
    ];
    Ok(Tool::Unpacked { root, program: "usr/bin/python3.11", arguments: vec![], variables })
}

/// A QEMU with `vfio-user-pci`, which came with 10.1.
pub fn qemu(workspace: &Workspace, shell: &Shell) -> Result<Tool> {
    if let Some(program) = on_path("qemu-system-x86_64")
        && version(shell, Command::new(&program).arg("--version"))? >= (10, 1)
    {
        return Ok(Tool::OnPath(program));
    }
    let backports = Recipe { name: "qemu", suites: &["trixie-backports", "trixie"], packages: &["qemu-system-x86"] };
    let unstable = Recipe { name: "qemu", suites: &["sid", "forky"], packages: &["qemu-system-x86"] };
    let tool = unpacked_qemu(backports.unpack(workspace, shell).or_else(|_| unstable.unpack(workspace, shell))?);
    let found = version(shell, tool.command()?.arg("--version"))?;
    if found < (10, 1) {
        bail!("vfio-user-pci needs QEMU 10.1, Debian's is {}.{}", found.0, found.1);
    }
    Ok(tool)
}

/// Debian 12's QEMU 7.2: the old end of what the images boot on.
pub fn qemu_7_2(workspace: &Workspace, shell: &Shell) -> Result<Tool> {
    let recipe = Recipe { name: "qemu-7.2", suites: &["bookworm"], packages: &["qemu-system-x86"] };
    Ok(unpacked_qemu(recipe.unpack(workspace, shell)?))
}

fn unpacked_qemu(root: Root) -> Tool {
    let folders = ["usr/share/qemu", "usr/share/seabios"].map(|folder| root.join(folder).display().to_string());
    let arguments = folders.into_iter().flat_map(|folder| ["-L".to_owned(), folder]).collect();
    // Debian's 7.2 has the accelerator as a module.
    let variables = vec![("QEMU_MODULE_DIR", root.join("usr/lib/x86_64-linux-gnu/qemu").display().to_string())];
    Tool::Unpacked { root, program: "usr/bin/qemu-system-x86_64", arguments, variables }
}

/// valgrind, for instruction counts.
pub fn valgrind(workspace: &Workspace, shell: &Shell) -> Result<Tool> {
    if let Some(program) = on_path("valgrind") {
        return Ok(Tool::OnPath(program));
    }
    let root = Recipe { name: "valgrind", suites: &["bookworm"], packages: &["valgrind"] }.unpack(workspace, shell)?;
    let library = root.join("usr/libexec/valgrind").display().to_string();
    Ok(Tool::Unpacked {
        root,
        program: "usr/bin/valgrind.bin",
        arguments: vec![],
        variables: vec![("VALGRIND_LIB", library)],
    })
}

/// objdump for aarch64.
pub fn aarch64_objdump(workspace: &Workspace, shell: &Shell) -> Result<Tool> {
    if let Some(program) = on_path("aarch64-linux-gnu-objdump") {
        return Ok(Tool::OnPath(program));
    }
    let packages = &["binutils-aarch64-linux-gnu"];
    let root = Recipe { name: "binutils-aarch64", suites: &["bookworm"], packages }.unpack(workspace, shell)?;
    Ok(Tool::Unpacked { root, program: "usr/bin/aarch64-linux-gnu-objdump", arguments: vec![], variables: vec![] })
}

/// The source of Rust's library, of just this release.
pub fn rust_library(workspace: &Workspace, shell: &Shell, release: &str) -> Result<PathBuf> {
    let (name, package) = (format!("rust-src-{release}"), format!("rust-src={release}+*"));
    let of = |suites| Recipe { name: &name, suites, packages: &[&package] }.unpack(workspace, shell);
    let root = of(&["trixie-backports", "trixie"]).or_else(|_| of(&["sid", "forky"]))?;
    Ok(root.join(&format!("usr/src/rustc-{release}/library")))
}

/// mksquashfs, for the root of Linux guests.
pub fn mksquashfs(workspace: &Workspace, shell: &Shell) -> Result<Tool> {
    if let Some(program) = on_path("mksquashfs") {
        return Ok(Tool::OnPath(program));
    }
    let recipe = Recipe { name: "squashfs", suites: &["bookworm"], packages: &["squashfs-tools"] };
    Ok(Tool::Unpacked {
        root: recipe.unpack(workspace, shell)?,
        program: "usr/bin/mksquashfs",
        arguments: vec![],
        variables: vec![],
    })
}

/// cargo-mutants: from `PATH`, else built by cargo.
pub fn cargo_mutants(workspace: &Workspace, shell: &Shell) -> Result<PathBuf> {
    let root = workspace.tools();
    let program = root.join("bin/cargo-mutants");
    if let Some(program) = on_path("cargo-mutants") {
        return Ok(program);
    }
    if !program.exists() {
        shell.note("building cargo-mutants, which takes some minutes");
        let mut cargo = workspace.cargo();
        cargo.args(["install", "--locked", "--version", CARGO_MUTANTS, "cargo-mutants", "--root"]).arg(&root);
        shell.check(&mut cargo)?;
    }
    Ok(program)
}

/// Chromium, to see pages as their readers do.
pub fn chromium(workspace: &Workspace, shell: &Shell) -> Result<Tool> {
    if let Some(program) = on_path("chromium")
        && shell.run(Command::new(&program).arg("--version"))?.status.success()
    {
        return Ok(Tool::OnPath(program));
    }
    const PROGRAM: &str = "usr/lib/chromium/chromium";
    let root = Recipe { name: "chromium", suites: &["trixie"], packages: &["chromium"] }.unpack(workspace, shell)?;
    root.put_loader_beside(PROGRAM)?;
    // It would start its other processes as `/proc/self/exe`, which is the loader: one process does it all.
    let arguments = ["--single-process", "--no-zygote"].map(String::from).into();
    let variables = vec![
        ("FONTCONFIG_FILE", root.join("etc/fonts/fonts.conf").display().to_string()),
        ("FONTCONFIG_SYSROOT", root.0.display().to_string()),
    ];
    Ok(Tool::Unpacked { root, program: PROGRAM, arguments, variables })
}

/// Major and minor version: the first `N.N` in what a program prints.
fn version(shell: &Shell, command: &mut Command) -> Result<(u32, u32)> {
    let text = shell.check(command)?;
    let mut words = text.split(|c: char| c.is_whitespace() || c == '(' || c == ')');
    let number = words.find_map(|word| {
        let mut parts = word.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    number.with_context(|| format!("no version in {text:?}"))
}
