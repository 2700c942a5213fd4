//! Gates: what must not be in the code, each shown to fail on a crate that has it before it may pass ours.

use crate::workspace::Workspace;
use anyhow::Result;
use std::fs;
use std::path::PathBuf;

pub mod arrows;
pub mod hal_bypass;
pub mod instructions;
pub mod no_alloc;
pub mod no_panic;
pub mod repo;

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
