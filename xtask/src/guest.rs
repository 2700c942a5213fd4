//! Builds a Linux guest out of Debian packages: a kernel, an initramfs, and a squashfs root with the RDMA tools.

use crate::debs::{Recipe, Root, once};
use crate::shell::Shell;
use crate::tools;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// What the guest's root holds besides the kernel.
const PACKAGES: &[&str] = &[
    "linux-image-amd64",
    "busybox-static",
    "bash",
    "coreutils",
    "iproute2",
    "iputils-ping",
    "iputils-arping",
    "ethtool",
    "pciutils",
    "kmod",
    "util-linux",
    "mount",
    "procps",
    "gawk",
    "grep",
    "sed",
    "findutils",
    "tar",
    "strace",
    "netbase",
    "rdma-core",
    "ibverbs-utils",
    "ibverbs-providers",
    "infiniband-diags",
    "opensm",
    "perftest",
    "rdmacm-utils",
    "python3-pyverbs",
    "python3-scapy",
];

/// Kernel modules that reach the root.
const BOOT_MODULES: &[&str] = &["virtio_pci", "virtio_blk", "squashfs", "overlay"];

/// rdma-core's own tests, which Debian files under documentation; they move to `/opt/rdma-core`.
const TESTS: &str = "usr/share/doc/rdma-core/tests";

/// What no test uses, and much of the packages' size.
const UNUSED: &[&str] = &[
    "boot",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "MODULES/kernel/sound",
    "MODULES/kernel/drivers/gpu",
    "MODULES/kernel/drivers/media",
    "MODULES/kernel/drivers/staging",
    "MODULES/kernel/drivers/scsi",
    "MODULES/kernel/drivers/iio",
    "MODULES/kernel/drivers/net/wireless",
    "MODULES/kernel/drivers/usb",
    "MODULES/kernel/net/bluetooth",
    "MODULES/kernel/net/mac80211",
];

const INIT: &str = include_str!("../guest/init.sh");
const INITRAMFS: &str = include_str!("../guest/initramfs.sh");

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// Debian 12, Linux 6.1
    Bookworm,
    /// Debian 13, Linux 6.12
    Trixie,
}

impl Suite {
    fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }
}

/// The files a guest boots from.
pub struct Guest(PathBuf);

impl Guest {
    /// The guest of a Debian suite; builds it where it was not built before.
    pub fn build(workspace: &Workspace, shell: &Shell, suite: Suite) -> Result<Self> {
        let folder = workspace.tools().join(format!("guest-{}", suite.name()));
        let stamp = format!("{PACKAGES:?} {TESTS} {UNUSED:?} {BOOT_MODULES:?} {INIT} {INITRAMFS}");
        once(&folder, &stamp, |partial| {
            let root = Root(partial.join("root"));
            fs::create_dir(&root.0)?;
            let recipe = Recipe { name: "a Linux guest", suites: &[suite.name()], packages: PACKAGES };
            recipe.unpack_into(workspace, shell, &root.0)?;
            Self(partial.to_owned()).fill(workspace, shell, &root)?;
            // The root is in the image now, and unpacked again in seconds.
            Ok(fs::remove_dir_all(root.0)?)
        })?;
        Ok(Self(folder))
    }

    pub fn kernel(&self) -> PathBuf {
        self.0.join("vmlinuz")
    }

    pub fn initramfs(&self) -> PathBuf {
        self.0.join("initramfs.cpio")
    }

    pub fn root(&self) -> PathBuf {
        self.0.join("root.squashfs")
    }

    fn fill(&self, workspace: &Workspace, shell: &Shell, root: &Root) -> Result<()> {
        shell.note("building a Linux guest");
        // A kernel's modules are in /lib, which the merged /usr has as a link.
        if !root.join("lib/modules").exists() {
            fs::create_dir_all(root.join("lib"))?;
            symlink("../usr/lib/modules", root.join("lib/modules"))?;
        }
        let mut kernels = fs::read_dir(root.join("lib/modules"))?;
        let version = kernels.next().context("no kernel in the guest")??.file_name().to_string_lossy().into_owned();
        let modules = format!("lib/modules/{version}");
        fs::copy(root.join(&format!("boot/vmlinuz-{version}")), self.kernel())?;
        fs::create_dir_all(root.join("opt/rdma-core"))?;
        fs::rename(root.join(TESTS), root.join("opt/rdma-core/tests")).context("python3-pyverbs without its tests")?;
        for path in UNUSED {
            let path = root.join(&path.replace("MODULES", &modules));
            if path.exists() {
                fs::remove_dir_all(path)?;
            }
        }
        let kmod =
            ["usr/bin/kmod", "bin/kmod"].into_iter().find(|path| root.join(path).is_file()).context("no kmod")?;
        shell.check(root.command_as(kmod, "depmod")?.arg("-b").arg(&root.0).arg(&version))?;
        prepare(root)?;
        fs::write(self.initramfs(), initramfs(root, &modules)?)?;
        let mut mksquashfs = tools::mksquashfs(workspace, shell)?.command()?;
        mksquashfs.arg(&root.0).arg(self.root()).args(["-comp", "zstd", "-Xcompression-level", "3", "-all-root"]);
        shell.check(mksquashfs.args(["-noappend", "-no-progress"])).map(drop)
    }
}

/// What the packages' own scripts would have done, as far as it is needed.
fn prepare(root: &Root) -> Result<()> {
    for folder in ["proc", "sys", "dev", "run", "tmp", "root", "mnt"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n::1 localhost\n192.0.2.1 guest1\n192.0.2.2 guest2\n")?;
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/bash\n")?;
    if !root.join("usr/bin/awk").exists() {
        symlink("gawk", root.join("usr/bin/awk"))?;
    }
    fs::write(root.join("guest-init"), INIT)?;
    Ok(fs::set_permissions(root.join("guest-init"), fs::Permissions::from_mode(0o755))?)
}

/// busybox and the modules that reach the root, in the order in which they load.
fn initramfs(root: &Root, modules: &str) -> Result<Vec<u8>> {
    let mut archive = Cpio::default();
    for folder in ["bin", "modules", "proc", "sys", "dev", "lower", "upper", "root"] {
        archive.folder(folder);
    }
    let busybox =
        ["usr/bin/busybox", "bin/busybox"].into_iter().find(|path| root.join(path).is_file()).context("no busybox")?;
    archive.file("bin/busybox", 0o755, &fs::read(root.join(busybox))?);
    let mut order = String::new();
    for path in load_order(&root.join(modules))? {
        let name = Path::new(&path).file_name().context("a module without a name")?.to_string_lossy().into_owned();
        archive.file(&format!("modules/{name}"), 0o644, &fs::read(root.join(modules).join(&path))?);
        order += &format!("{name}\n");
    }
    archive.file("modules/order", 0o644, order.as_bytes());
    archive.file("init", 0o755, INITRAMFS.as_bytes());
    Ok(archive.finish())
}

/// The files of [`BOOT_MODULES`] and of all they need, each after those that it needs; depmod wrote down which.
fn load_order(modules: &Path) -> Result<Vec<String>> {
    let dependencies = fs::read_to_string(modules.join("modules.dep"))?;
    let builtin = fs::read_to_string(modules.join("modules.builtin"))?;
    let is = |path: &str, module: &str| {
        let name = path.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or("");
        name.replace('-', "_") == module
    };
    let mut order: Vec<String> = Vec::new();
    for module in BOOT_MODULES {
        let line = dependencies.lines().find(|line| line.split(':').next().is_some_and(|path| is(path, module)));
        let Some(line) = line else {
            ensure!(builtin.lines().any(|path| is(path, module)), "the guest's kernel has no {module}");
            continue;
        };
        let (path, needs) = line.split_once(':').context("a line without a colon in modules.dep")?;
        // depmod names the nearest first.
        for file in needs.split_whitespace().rev().chain([path]) {
            if !order.iter().any(|known| known == file) {
                order.push(file.to_owned());
            }
        }
    }
    Ok(order)
}

/// An archive in cpio's "newc" form, which the kernel unpacks (Documentation/driver-api/early-userspace/buffer-format).
#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    entries: u32,
}

impl Cpio {
    fn folder(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[]);
    }

    fn file(&mut self, name: &str, permissions: u32, content: &[u8]) {
        self.entry(name, 0o100_000 | permissions, content);
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        // inode, mode, uid, gid, links, mtime, size, device x2, special device x2, name with its zero, checksum
        let fields = [self.entries, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend(b"070701");
        self.bytes.extend(fields.iter().flat_map(|field| format!("{field:08x}").into_bytes()));
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}
