//! Gates: what must not be in the code, each shown to fail on a crate that has it before it may pass ours.

use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

pub mod arrows;
pub mod barriers;
pub mod explore;
pub mod hal_bypass;
pub mod instructions;
pub mod no_alloc;
pub mod no_panic;
pub mod repo;
pub mod weak_memory;

/// The packages that run where there is no operating system.
pub const BARE: &[&str] = &["bareverbs", "bareverbs-hal", "bareverbs-mlx5-prm", "bareverbs-mlx5"];

/// The only target that the gates are built for: bare crates have nothing that depends on the system.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Writes a package of its own, outside the workspace, for a gate to try itself on.
fn scratch(workspace: &Workspace, name: &str, manifest: &str, source: &str) -> Result<PathBuf> {
    let folder = workspace.target.join("xtask/scratch").join(name);
    fs::create_dir_all(folder.join("src"))?;
    let head = format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n");
    fs::write(folder.join("Cargo.toml"), head + manifest)?;
    fs::write(folder.join("src/lib.rs"), source)?;
    Ok(folder)
}

/// The drivers' data path, exported (`xtask/gates/data_path.rs`), and the dependencies of a package that holds it.
fn data_path(workspace: &Workspace) -> Result<(String, String)> {
    let path = workspace.root.join("xtask/gates/data_path.rs");
    let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let line = |name: &str, folder: &str| {
        let folder = workspace.root.join(folder).display().to_string();
        format!("{name} = {{ path = {folder:?} }}\n")
    };
    let dependencies = [
        "[dependencies]\n".to_owned(),
        line("bareverbs", "core"),
        line("bareverbs-hal", "hal"),
        line("bareverbs-mlx5", "drivers/mlx5"),
    ];
    Ok((source, dependencies.concat()))
}
