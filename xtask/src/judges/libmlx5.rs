//! Debian's compiled libmlx5, under programs of ours that call its data path without a device.
//!
//! The archive comes from the package, the private headers from the source package of the same version. What the
//! distribution's build would generate (`config.h`, the `kernel-abi` headers) is made here. Programs run on the C
//! library that the archive was compiled for.

use crate::debs::{self, Recipe, Root};
use crate::shell::Shell;
use crate::test::{Bench, Tally};
use crate::tools;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian 13: rdma-core 56.
const SUITE: &str = "trixie";

/// The archive hides these names behind a prefix of its version.
const PREFIX: &str = "rdmacore56_1";
const HIDDEN: &[&str] = &[
    "mlx5_post_send",
    "mlx5_post_recv",
    "mlx5_post_srq_recv",
    "mlx5_poll_cq_v1",
    "mlx5_init_qp_indices",
    "mlx5_store_uidx",
    "mlx5_single_threaded",
];

/// What configuring rdma-core with gcc on Linux finds.
const CONFIG: &str = "\
#define HAVE_STATEMENT_EXPR 1
#define HAVE_BUILTIN_TYPES_COMPATIBLE_P 1
#define HAVE_TYPEOF 1
#define HAVE_ISBLANK 1
#define HAVE_BUILTIN_CLZ 1
#define HAVE_BUILTIN_CLZL 1
#define HAVE_FUNC_ATTRIBUTE_ALWAYS_INLINE 1
#define HAVE_FUNC_ATTRIBUTE_IFUNC 1
#define HAVE_FUNC_ATTRIBUTE_SYMVER 1
#define HAVE_FULL_SYMBOL_VERSIONS 1
#define ALWAYS_INLINE __attribute__((always_inline))
#define PACKAGE_VERSION \"\"
#define IBV_CONFIG_DIR \"\"
#define VERBS_PROVIDER_DIR \"\"
#define VERBS_PROVIDER_SUFFIX \"\"
#define IBVERBS_PABI_VERSION 34
#define NRESOLVE_NEIGH 1
#define SIZEOF_LONG 8
";

/// Seed and number of the requests in the gate.
const SEED: u64 = 1;
const COUNT: usize = 10_000;

/// The group `libmlx5-differential`: the same requests and completions to both.
pub fn differential(bench: &Bench) -> Result<Tally> {
    let (workspace, shell) = (bench.workspace, &bench.shell);
    let libmlx5 = Libmlx5::get(workspace, shell)?;
    let program = libmlx5.build(workspace, shell, "differential")?;
    shell.check(workspace.cargo().args([
        "build",
        "--release",
        "-p",
        "bareverbs-bench",
        "--bin",
        "libmlx5_differential",
    ]))?;
    let mut compare = Command::new(workspace.target.join("release/libmlx5_differential"));
    compare.args(["--seed", &SEED.to_string(), "--count", &COUNT.to_string()]).arg(program);
    let mut tally = Tally::default();
    tally.count(shell.check(&mut compare).map(drop));
    Ok(tally)
}

/// The unpacked package, and headers to compile against it.
pub struct Libmlx5 {
    root: Root,
    headers: PathBuf,
}

impl Libmlx5 {
    pub fn get(workspace: &Workspace, shell: &Shell) -> Result<Self> {
        let recipe = Recipe { name: "libmlx5", suites: &[SUITE], packages: &["libibverbs-dev"] };
        let root = recipe.unpack(workspace, shell)?;
        let source = debs::source(workspace, shell, SUITE, "rdma-core")?;
        let headers = workspace.tools().join("libmlx5-headers");
        debs::once(&headers, CONFIG, |folder| make_headers(workspace, shell, &source.0, folder))?;
        Ok(Self { root, headers })
    }

    /// Compiles `tests/bench/libmlx5/NAME.c`, and makes a script that runs it on the unpacked C library.
    pub fn build(&self, workspace: &Workspace, shell: &Shell, name: &str) -> Result<PathBuf> {
        let sources = workspace.root.join("tests/bench/libmlx5");
        let out = workspace.target.join("xtask/libmlx5");
        fs::create_dir_all(&out)?;
        let library = self.root.join("usr/lib/x86_64-linux-gnu");
        let program = out.join(format!("{name}.bin"));
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-g", "-Wall", "-D_GNU_SOURCE", "-o"]).arg(&program);
        cc.arg("-I").arg(&self.headers).arg("-I").arg(self.headers.join("mlx5"));
        cc.args(HIDDEN.iter().map(|name| format!("-D{name}={PREFIX}_{name}")));
        cc.arg(sources.join(format!("{name}.c"))).arg(sources.join("glibc.c"));
        cc.arg("-Wl,--start-group").args(["libmlx5.a", "libibverbs.a"].map(|archive| library.join(archive)));
        cc.arg("-Wl,--end-group").args(["libnl-3.so.200", "libnl-route-3.so.200"].map(|name| library.join(name)));
        // They need the C library of their own distribution, which is there when the program runs.
        cc.arg("-Wl,--allow-shlib-undefined");
        shell.check(&mut cc).context("libmlx5's programs need a C compiler")?;
        let script = out.join(name);
        let run = self.root.command_in_place(&program)?;
        let words: Vec<String> = std::iter::once(run.get_program())
            .chain(run.get_args())
            .map(|word| format!("'{}'", word.to_string_lossy()))
            .collect();
        fs::write(&script, format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")))?;
        shell.check(Command::new("chmod").arg("+x").arg(&script))?;
        Ok(script)
    }
}

/// The tree of headers that rdma-core's build makes of its sources.
fn make_headers(workspace: &Workspace, shell: &Shell, source: &Path, folder: &Path) -> Result<()> {
    let python = tools::scapy(workspace, shell)?;
    fs::write(folder.join("config.h"), CONFIG)?;
    for name in ["ccan", "util"] {
        symlink(source.join(name), folder.join(name))?;
    }
    symlink(source.join("providers/mlx5"), folder.join("mlx5"))?;
    let [infiniband, rdma, abi] = ["infiniband", "rdma", "kernel-abi"].map(|name| folder.join(name));
    for folder in [&infiniband, &rdma, &abi] {
        fs::create_dir_all(folder)?;
    }
    let kernel = source.join("kernel-headers/rdma");
    // A header that stands in two places is the same in both.
    let link = |file: &Path, folder: &Path| -> Result<()> {
        let name = folder.join(file.file_name().context("no name")?);
        if name.exists() { Ok(()) } else { Ok(symlink(file, name)?) }
    };
    for file in files(&source.join("libibverbs"), ".h")? {
        link(&file, &infiniband)?;
    }
    for name in ["mlx5dv.h", "mlx5_api.h"] {
        link(&source.join("providers/mlx5").join(name), &infiniband)?;
    }
    for file in files(&kernel, ".h")? {
        link(&file, &rdma)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with("_ioctl_verbs.h") {
            link(&file, &infiniband)?;
        }
        if name.ends_with("-abi.h") || name == "ib_user_verbs.h" {
            let mut generate = python.command()?;
            generate.current_dir(source).arg("buildlib/make_abi_structs.py").arg(&file).arg(abi.join(name));
            shell.check(&mut generate)?;
        }
    }
    Ok(())
}

fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let all = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(all.into_iter().filter(|file| file.to_string_lossy().ends_with(end)).collect())
}
