//! What stands between a program and a PCI function, in words.

use crate::sysfs::{Host, addresses, function, link};
use bareverbs_hal::PciAddress;
use rustix::{
    fs::{Access, access},
    process::{Resource, getrlimit},
};
use std::{fmt, fs, io, path::PathBuf};

/// Locked memory that a card needs before a program registers any of its own: firmware's pages, queues and mailboxes.
pub const LOCKED_MEMORY: u64 = 64 << 20;

/// Bit of the capability to exceed the limit on locked memory (Linux, capability.h).
const CAP_IPC_LOCK: u32 = 14;

/// What stands in the way. Shown as what was seen, what was expected, and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// No function has this address.
    NoSuchFunction,
    /// The function has no IOMMU group.
    IommuOff,
    /// The group is one of VFIO's no-IOMMU mode.
    NoIommuMode,
    /// vfio-pci is not loaded.
    NoVfioModule,
    /// Another driver has the function.
    BoundTo(String),
    /// No driver has the function.
    NotBound,
    /// Functions of the same IOMMU group are with drivers of the kernel.
    SharedGroup {
        /// The group.
        group: u32,
        /// Which functions, and their drivers.
        others: Vec<(PciAddress, String)>,
    },
    /// There is no node for the container or the group.
    NoNode(PathBuf),
    /// The user may not read and write a node.
    NotPermitted(PathBuf),
    /// The group's node is open already.
    InUse(PathBuf),
    /// The limit on locked memory is too low.
    LockedMemory(u64),
}

/// What makes a program slower, and does not stop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// No huge pages are reserved.
    NoHugePages,
}

/// What was found about a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The function.
    pub address: PciAddress,
    /// What stands in the way, in the order in which to clear it away.
    pub obstacles: Vec<Obstacle>,
    /// What would make it better.
    pub hints: Vec<Hint>,
}

impl Report {
    /// Whether [`Vfio::open`](crate::Vfio::open) may be expected to work.
    pub fn is_clear(&self) -> bool {
        self.obstacles.is_empty()
    }
}

/// The limits of a process on locked memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// `RLIMIT_MEMLOCK`; `None` is unlimited.
    memlock: Option<u64>,
    /// Whether the process may exceed it.
    exempt: bool,
}

impl Limits {
    /// Those of this process.
    fn own(host: &Host) -> Self {
        let status = fs::read_to_string(host.proc.join("self/status")).unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        Self { memlock: getrlimit(Resource::Memlock).current, exempt: effective >> CAP_IPC_LOCK & 1 == 1 }
    }
}

/// Looks at everything that must be so before a function can be opened.
pub fn preflight(host: &Host, address: PciAddress) -> Report {
    let mut report = Report { address, obstacles: vec![], hints: vec![] };
    report.obstacles = obstacles(host, address, Limits::own(host));
    if free_huge_pages(host) == 0 {
        report.hints.push(Hint::NoHugePages);
    }
    report
}

fn obstacles(host: &Host, address: PciAddress, limits: Limits) -> Vec<Obstacle> {
    let Ok(info) = function(host, address) else {
        return vec![Obstacle::NoSuchFunction];
    };
    let mut found = Vec::new();
    let group_folder = host.device(address).join("iommu_group");
    let group_name = fs::read_to_string(group_folder.join("name")).unwrap_or_default();
    if group_name.trim() == "vfio-noiommu" {
        return vec![Obstacle::NoIommuMode];
    }
    if info.group.is_none() {
        found.push(Obstacle::IommuOff);
    }
    if !host.sys.join("bus/pci/drivers/vfio-pci").exists() {
        found.push(Obstacle::NoVfioModule);
    }
    let ours = match info.driver {
        None => {
            found.push(Obstacle::NotBound);
            false
        }
        Some(driver) if !is_vfio(&driver) => {
            found.push(Obstacle::BoundTo(driver));
            false
        }
        Some(_) => true,
    };
    if let Some(group) = info.group {
        let others = strangers(host, &group_folder, address);
        if !others.is_empty() {
            found.push(Obstacle::SharedGroup { group, others });
        } else if ours {
            found.extend(node(host.dev.join("vfio/vfio"), false));
            found.extend(node(host.group(group), true));
        }
    }
    if let Limits { memlock: Some(limit), exempt: false } = limits
        && limit < LOCKED_MEMORY
    {
        found.push(Obstacle::LockedMemory(limit));
    }
    found
}

/// The drivers that hand a function to a process: vfio-pci and its kind (mlx5_vfio_pci for virtual functions).
fn is_vfio(driver: &str) -> bool {
    driver == "vfio-pci" || driver.ends_with("_vfio_pci")
}

/// The other functions of the group that a kernel driver has. Bridges and stubs do not count (Linux, vfio_main.c).
fn strangers(host: &Host, group: &std::path::Path, address: PciAddress) -> Vec<(PciAddress, String)> {
    let mut members = addresses(&group.join("devices")).unwrap_or_default();
    members.retain(|member| *member != address);
    members.sort();
    let driver = |member: PciAddress| Some((member, link(&host.device(member).join("driver"))?));
    let harmless = |driver: &str| is_vfio(driver) || ["pcieport", "pci-stub"].contains(&driver);
    members.into_iter().filter_map(driver).filter(|(_, driver)| !harmless(driver)).collect()
}

/// What is wrong with a node. A group's can be open once at a time.
fn node(path: PathBuf, exclusive: bool) -> Option<Obstacle> {
    if !path.exists() {
        return Some(Obstacle::NoNode(path));
    }
    if access(&path, Access::READ_OK | Access::WRITE_OK).is_err() {
        return Some(Obstacle::NotPermitted(path));
    }
    let opened = fs::OpenOptions::new().read(true).write(true).open(&path);
    match opened {
        Err(e) if exclusive && e.kind() == io::ErrorKind::ResourceBusy => Some(Obstacle::InUse(path)),
        _ => None,
    }
}

fn free_huge_pages(host: &Host) -> u64 {
    let file = host.sys.join("kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// An obstacle and the function that it stands before.
pub(crate) struct Told<'a>(pub(crate) PciAddress, pub(crate) &'a Obstacle);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bdf, obstacle) = self;
        match obstacle {
            Obstacle::NoSuchFunction => write!(
                f,
                "the host has no PCI function {bdf}; the address of an HCA was expected. Next: look for it in what \
                 `devices` lists"
            ),
            Obstacle::IommuOff => write!(
                f,
                "{bdf} is in no IOMMU group; an IOMMU that is on was expected. Next: turn on VT-d or AMD-Vi in the \
                 firmware's setup, boot with intel_iommu=on (AMD: nothing to add), and look for \
                 /sys/class/iommu to have entries"
            ),
            Obstacle::NoIommuMode => write!(
                f,
                "{bdf} is in a group of VFIO's no-IOMMU mode, which is not supported: the card could write anywhere; \
                 a group of a real IOMMU was expected. Next: turn the IOMMU on (intel_iommu=on) and \
                 enable_unsafe_noiommu_mode off"
            ),
            Obstacle::NoVfioModule => write!(
                f,
                "the kernel has no driver vfio-pci loaded, which was expected. Next: modprobe vfio-pci (a kernel \
                 without it needs CONFIG_VFIO_PCI)"
            ),
            Obstacle::BoundTo(driver) => write!(
                f,
                "{bdf} is bound to {driver}, vfio-pci was expected. Unlike with DPDK, no kernel driver keeps the card: \
                 its network interfaces and RDMA devices go. Next, as root: {}",
                Rebind(*bdf, true)
            ),
            Obstacle::NotBound => {
                write!(f, "{bdf} is bound to no driver, vfio-pci was expected. Next, as root: {}", Rebind(*bdf, false))
            }
            Obstacle::SharedGroup { group, others } => {
                write!(f, "{bdf} shares IOMMU group {group} with")?;
                others.iter().try_for_each(|(other, driver)| write!(f, " {other} (bound to {driver})"))?;
                write!(
                    f,
                    "; all of a group on vfio-pci or without a driver was expected. Next: bind those to vfio-pci too \
                     or unbind them, or use a slot whose root port has ACS"
                )
            }
            Obstacle::NoNode(path) => write!(
                f,
                "there is no {}, which was expected. Next: modprobe vfio-pci, and in a container pass the node in \
                 (--device)",
                path.display()
            ),
            Obstacle::NotPermitted(path) => write!(
                f,
                "this user may not read and write {}, which was expected. Next, as root: chown USER {} (for good: a \
                 udev rule for SUBSYSTEM==\"vfio\")",
                path.display(),
                path.display()
            ),
            Obstacle::InUse(path) => write!(
                f,
                "{} is open already, one user at a time was expected. Next: end the other program (fuser {} names it); \
                 more processes on one card use virtual functions",
                path.display(),
                path.display()
            ),
            Obstacle::LockedMemory(limit) => write!(
                f,
                "this process may lock {limit} bytes of memory, {LOCKED_MEMORY} were expected before any of the \
                 program's own. Next: ulimit -l unlimited (for good: memlock in limits.conf, LimitMEMLOCK= in a unit)"
            ),
        }
    }
}

/// The commands that bind a function to vfio-pci.
struct Rebind(PciAddress, bool);

impl fmt::Display for Rebind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bdf, bound) = self;
        write!(f, "modprobe vfio-pci; echo vfio-pci > /sys/bus/pci/devices/{bdf}/driver_override; ")?;
        if *bound {
            write!(f, "echo {bdf} > /sys/bus/pci/devices/{bdf}/driver/unbind; ")?;
        }
        write!(f, "echo {bdf} > /sys/bus/pci/drivers_probe")
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHugePages => f.write_str(
                "no huge pages are free: ordinary memory is used, which costs the IOMMU more look-ups. To change it: \
                 sysctl vm.nr_hugepages=64",
            ),
        }
    }
}

impl fmt::Display for Report {
    /// One line an obstacle and a hint, and `ready` if nothing stands in the way.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.obstacles.iter().try_for_each(|obstacle| writeln!(f, "{}", Told(self.address, obstacle)))?;
        self.hints.iter().try_for_each(|hint| writeln!(f, "hint: {hint}"))?;
        if self.is_clear() { writeln!(f, "{} is ready", self.address) } else { Ok(()) }
    }
}

#[cfg(test)]
#[path = "preflight_tests.rs"]
mod tests;
