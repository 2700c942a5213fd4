//! What Linux tells about PCI functions in sysfs.

use bareverbs_hal::PciAddress;
use std::{
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

/// Where a host's view of itself is found; another one in tests.
#[derive(Clone, Debug)]
pub struct Host {
    /// sysfs.
    pub sys: PathBuf,
    /// Device nodes.
    pub dev: PathBuf,
    /// procfs.
    pub proc: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self { sys: "/sys".into(), dev: "/dev".into(), proc: "/proc".into() }
    }
}

impl Host {
    /// All PCI functions.
    pub(crate) fn devices(&self) -> PathBuf {
        self.sys.join("bus/pci/devices")
    }

    /// The folder of a PCI function.
    pub(crate) fn device(&self, address: PciAddress) -> PathBuf {
        self.devices().join(address.to_string())
    }

    /// The node of an IOMMU group.
    pub(crate) fn group(&self, group: u32) -> PathBuf {
        self.dev.join("vfio").join(group.to_string())
    }
}

/// A PCI function as Linux sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Where it sits.
    pub address: PciAddress,
    /// PCI vendor id.
    pub vendor: u16,
    /// PCI device id.
    pub device: u16,
    /// The kernel driver that it is bound to.
    pub driver: Option<String>,
    /// Its IOMMU group.
    pub group: Option<u32>,
}

/// All PCI functions of the host, in order of their addresses.
pub fn functions(host: &Host) -> io::Result<Vec<FunctionInfo>> {
    let mut found = addresses(&host.devices())?;
    found.sort();
    found.into_iter().map(|address| function(host, address)).collect()
}

/// One function; `NotFound` if the host has none at this address.
pub fn function(host: &Host, address: PciAddress) -> io::Result<FunctionInfo> {
    let folder = host.device(address);
    Ok(FunctionInfo {
        address,
        vendor: hex(&folder.join("vendor"))?,
        device: hex(&folder.join("device"))?,
        driver: link(&folder.join("driver")),
        group: link(&folder.join("iommu_group")).and_then(|name| name.parse().ok()),
    })
}

/// The addresses that name entries of a folder.
pub(crate) fn addresses(folder: &Path) -> io::Result<Vec<PciAddress>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().parse().ok()));
    names.filter_map(|name: io::Result<_>| name.transpose()).collect()
}

/// Where memory BARs, and the windows of bridges, lie in physical memory.
pub(crate) fn bar_ranges(host: &Host) -> io::Result<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    for address in addresses(&host.devices())? {
        // A function may go while we look.
        let text = fs::read_to_string(host.device(address).join("resource")).unwrap_or_default();
        ranges.extend(text.lines().filter_map(resource));
    }
    Ok(ranges)
}

/// A line of sysfs' `resource`: first and last address and flags (Linux, ioport.h: IORESOURCE_MEM is 0x200).
fn resource(line: &str) -> Option<Range<u64>> {
    let mut numbers = line.split_whitespace().map(|n| u64::from_str_radix(n.strip_prefix("0x")?, 16).ok());
    let (start, last, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let end = last.checked_add(1)?;
    (flags & 0x200 != 0 && start > 0 && start < end).then_some(start..end)
}

/// The name of what a link leads to.
pub(crate) fn link(path: &Path) -> Option<String> {
    Some(fs::read_link(path).ok()?.file_name()?.to_string_lossy().into_owned())
}

/// A number that sysfs prints with its `0x`.
fn hex(path: &Path) -> io::Result<u16> {
    let text = fs::read_to_string(path)?;
    let digits = text.trim().strip_prefix("0x").unwrap_or(text.trim());
    u16::from_str_radix(digits, 16).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::resource;

    // Lines as Linux 6.1 prints them for a ConnectX-5: a prefetchable 64-bit BAR, an empty one, an I/O BAR.
    #[test]
    fn memory_bars_are_found_in_the_lines_of_sysfs() {
        assert_eq!(
            resource("0x00000000c2000000 0x00000000c3ffffff 0x000000000014220c"),
            Some(0xc200_0000..0xc400_0000)
        );
        assert_eq!(resource("0x0000000000000000 0x0000000000000000 0x0000000000000000"), None);
        assert_eq!(resource("0x0000000000003000 0x000000000000307f 0x0000000000040101"), None);
        assert_eq!(resource(""), None);
    }
}
