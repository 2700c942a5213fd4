//! Where things are, and which packages there are: `cargo metadata`, read once.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A member of the workspace.
pub struct Package {
    pub name: String,
    /// The package's folder, relative to the workspace root.
    pub folder: String,
    pub has_lib: bool,
    /// Its programs that are machines of their own: those that need the feature `image`.
    pub images: Vec<String>,
    /// The workspace's own packages this one needs, as normal or build dependencies.
    pub needs: Vec<String>,
}

pub struct Workspace {
    pub root: PathBuf,
    pub target: PathBuf,
    pub packages: Vec<Package>,
}

impl Workspace {
    pub fn read() -> Result<Self> {
        let output = Command::new(cargo()).args(["metadata", "--format-version=1", "--no-deps"]).output()?;
        if !output.status.success() {
            bail!("cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        let root = PathBuf::from(text(&metadata, "workspace_root")?);
        let packages = list(&metadata, "packages")?;
        let packages = packages.iter().map(|p| Package::read(p, &root)).collect::<Result<Vec<_>>>()?;
        Ok(Self { target: PathBuf::from(text(&metadata, "target_directory")?), root, packages })
    }

    /// Tools and guests, kept between runs. `BAREVERBS_TOOLS` names another place, shared by several checkouts.
    pub fn tools(&self) -> PathBuf {
        std::env::var_os("BAREVERBS_TOOLS").map_or_else(|| self.target.join("tools"), PathBuf::from)
    }

    /// `cargo`, started at the workspace root.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(cargo());
        command.current_dir(&self.root);
        command
    }
}

impl Package {
    fn read(package: &Value, root: &Path) -> Result<Self> {
        let manifest = PathBuf::from(text(package, "manifest_path")?);
        let folder = manifest.parent().context("a manifest without a folder")?;
        let targets = list(package, "targets")?;
        let is_lib = |t: &&Value| t["kind"].as_array().is_some_and(|k| k.iter().any(|k| k == "lib" || k == "rlib"));
        let needs_image =
            |t: &&Value| t["required-features"].as_array().is_some_and(|f| f.iter().any(|f| f == "image"));
        let images = targets.iter().filter(needs_image).map(|t| Ok(text(t, "name")?.to_owned()));
        let images = images.collect::<Result<_>>()?;
        let dependencies = list(package, "dependencies")?;
        let ours = dependencies.iter().filter(|d| d["path"].is_string() && d["kind"] != "dev");
        Ok(Self {
            name: text(package, "name")?.to_owned(),
            folder: folder.strip_prefix(root).unwrap_or(folder).display().to_string(),
            images,
            has_lib: targets.iter().any(|t| is_lib(&t)),
            needs: ours.map(|d| Ok(text(d, "name")?.to_owned())).collect::<Result<_>>()?,
        })
    }
}

/// The cargo that runs us, so that inner builds use the same toolchain.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata has no text {key:?}"))
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("cargo metadata has no list {key:?}"))
}
