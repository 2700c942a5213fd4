//! Each obstacle on a fake host.

use super::*;
use std::{
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

const CARD: &str = "0000:3b:00.0";
const FREE: Limits = Limits { memlock: None, exempt: false };

/// A host in a folder of its own: one ConnectX-5 on vfio-pci in group 7 behind a bridge, everything as it should be.
struct Fake(Host);

impl Fake {
    fn new() -> Self {
        static FAKES: AtomicU32 = AtomicU32::new(0);
        let number = FAKES.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("bareverbs-preflight-{}-{number}", std::process::id()));
        let fake = Self(Host { sys: root.join("sys"), dev: root.join("dev"), proc: root.join("proc") });
        for driver in ["vfio-pci", "mlx5_core", "pcieport", "e1000e"] {
            fs::create_dir_all(fake.0.sys.join("bus/pci/drivers").join(driver)).unwrap();
        }
        fake.function(CARD, Some("vfio-pci"), Some(7));
        fake.function("0000:3a:00.0", Some("pcieport"), Some(7));
        fs::create_dir_all(fake.0.dev.join("vfio")).unwrap();
        fs::write(fake.0.dev.join("vfio/vfio"), "").unwrap();
        fs::write(fake.0.group(7), "").unwrap();
        fake
    }

    fn function(&self, address: &str, driver: Option<&str>, group: Option<u32>) {
        let sys = &self.0.sys;
        let folder = self.0.devices().join(address);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("vendor"), "0x15b3\n").unwrap();
        fs::write(folder.join("device"), "0x1017\n").unwrap();
        relink(&folder.join("driver"), driver.map(|driver| sys.join("bus/pci/drivers").join(driver)));
        relink(&folder.join("iommu_group"), group.map(|group| sys.join(format!("kernel/iommu_groups/{group}"))));
        if let Some(group) = group {
            let devices = sys.join(format!("kernel/iommu_groups/{group}/devices"));
            fs::create_dir_all(&devices).unwrap();
            relink(&devices.join(address), Some(folder));
        }
    }

    fn obstacles(&self) -> Vec<Obstacle> {
        obstacles(&self.0, CARD.parse().unwrap(), FREE)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // What is left over is small, and in the system's folder for temporary files.
        let _ = fs::remove_dir_all(self.0.sys.parent().unwrap());
    }
}

fn relink(path: &Path, to: Option<PathBuf>) {
    let _ = fs::remove_file(path);
    if let Some(to) = to {
        symlink(to, path).unwrap();
    }
}

fn bdf(text: &str) -> PciAddress {
    text.parse().unwrap()
}

fn text(obstacle: &Obstacle) -> String {
    Told(bdf(CARD), obstacle).to_string()
}

#[test]
fn a_host_in_order_has_no_obstacles() {
    assert_eq!(Fake::new().obstacles(), []);
}

#[test]
fn no_such_function_is_told_by_its_address() {
    let fake = Fake::new();
    let found = obstacles(&fake.0, bdf("0000:99:00.0"), FREE);
    assert_eq!(found, [Obstacle::NoSuchFunction]);
    assert!(Told(bdf("0000:99:00.0"), &found[0]).to_string().contains("no PCI function 0000:99:00.0"));
}

#[test]
fn the_wrong_driver_comes_with_the_commands_to_rebind() {
    let fake = Fake::new();
    fake.function(CARD, Some("mlx5_core"), Some(7));
    assert_eq!(fake.obstacles(), [Obstacle::BoundTo("mlx5_core".into())]);
    let text = text(&fake.obstacles()[0]);
    for part in [
        "0000:3b:00.0 is bound to mlx5_core",
        "Unlike with DPDK",
        "echo vfio-pci > /sys/bus/pci/devices/0000:3b:00.0/driver_override",
        "echo 0000:3b:00.0 > /sys/bus/pci/devices/0000:3b:00.0/driver/unbind",
        "echo 0000:3b:00.0 > /sys/bus/pci/drivers_probe",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn no_driver_needs_no_unbinding() {
    let fake = Fake::new();
    fake.function(CARD, None, Some(7));
    assert_eq!(fake.obstacles(), [Obstacle::NotBound]);
    let text = text(&Obstacle::NotBound);
    assert!(text.contains("drivers_probe") && !text.contains("unbind"), "{text}");
}

#[test]
fn vfio_for_virtual_functions_is_as_good() {
    let fake = Fake::new();
    fake.function(CARD, Some("mlx5_vfio_pci"), Some(7));
    assert_eq!(fake.obstacles(), []);
}

#[test]
fn an_iommu_that_is_off_is_told_before_the_driver() {
    let fake = Fake::new();
    fake.function(CARD, Some("mlx5_core"), None);
    assert_eq!(fake.obstacles(), [Obstacle::IommuOff, Obstacle::BoundTo("mlx5_core".into())]);
    assert!(text(&Obstacle::IommuOff).contains("intel_iommu=on"));
}

#[test]
fn the_mode_without_an_iommu_is_refused_by_name() {
    let fake = Fake::new();
    fs::write(fake.0.sys.join("kernel/iommu_groups/7/name"), "vfio-noiommu\n").unwrap();
    assert_eq!(fake.obstacles(), [Obstacle::NoIommuMode]);
    assert!(text(&Obstacle::NoIommuMode).contains("not supported"));
}

#[test]
fn a_kernel_without_the_module_is_told() {
    let fake = Fake::new();
    fake.function(CARD, None, Some(7));
    fs::remove_dir(fake.0.sys.join("bus/pci/drivers/vfio-pci")).unwrap();
    assert_eq!(fake.obstacles(), [Obstacle::NoVfioModule, Obstacle::NotBound]);
    assert!(text(&Obstacle::NoVfioModule).contains("modprobe vfio-pci"));
}

#[test]
fn who_shares_the_group_is_named() {
    let fake = Fake::new();
    fake.function("0000:3b:00.1", Some("mlx5_core"), Some(7));
    fake.function("0000:3c:00.0", Some("e1000e"), Some(7));
    fake.function("0000:3d:00.0", None, Some(7));
    fake.function("0000:3e:00.0", Some("e1000e"), Some(8));
    let others = vec![(bdf("0000:3b:00.1"), "mlx5_core".into()), (bdf("0000:3c:00.0"), "e1000e".into())];
    let expected = Obstacle::SharedGroup { group: 7, others };
    assert_eq!(fake.obstacles(), std::slice::from_ref(&expected));
    assert!(text(&expected).contains("group 7 with 0000:3b:00.1 (bound to mlx5_core) 0000:3c:00.0 (bound to e1000e)"));
}

#[test]
fn missing_nodes_are_named() {
    let fake = Fake::new();
    fs::remove_file(fake.0.group(7)).unwrap();
    assert_eq!(fake.obstacles(), [Obstacle::NoNode(fake.0.group(7))]);
    fs::remove_file(fake.0.dev.join("vfio/vfio")).unwrap();
    assert_eq!(fake.obstacles()[0], Obstacle::NoNode(fake.0.dev.join("vfio/vfio")));
}

/// The permissions of files do not hold for root, to whom the system says yes.
#[test]
fn nodes_without_permission_are_named() {
    let fake = Fake::new();
    let path = fake.0.group(7);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let expected =
        if rustix::process::geteuid().is_root() { vec![] } else { vec![Obstacle::NotPermitted(path.clone())] };
    assert_eq!(fake.obstacles(), expected);
    let text = text(&Obstacle::NotPermitted(path.clone()));
    assert!(text.contains(&format!("chown USER {}", path.display())), "{text}");
}

#[test]
fn the_limit_on_locked_memory_counts_unless_exempt() {
    let fake = Fake::new();
    let found = |memlock, exempt| obstacles(&fake.0, bdf(CARD), Limits { memlock, exempt });
    assert_eq!(found(Some(65536), false), [Obstacle::LockedMemory(65536)]);
    assert_eq!(found(Some(65536), true), []);
    assert_eq!(found(Some(LOCKED_MEMORY), false), []);
    assert!(text(&Obstacle::LockedMemory(65536)).contains("may lock 65536 bytes"));
}

#[test]
fn capabilities_are_read_from_proc() {
    let fake = Fake::new();
    fs::create_dir_all(fake.0.proc.join("self")).unwrap();
    // A line as Linux 6.1 prints it: all 41 capabilities; then those of an unprivileged process.
    fs::write(fake.0.proc.join("self/status"), "Name:\tx\nCapEff:\t000001ffffffffff\n").unwrap();
    assert!(Limits::own(&fake.0).exempt);
    fs::write(fake.0.proc.join("self/status"), "CapEff:\t0000000000000000\n").unwrap();
    assert!(!Limits::own(&fake.0).exempt);
}

#[test]
fn huge_pages_are_a_hint() {
    let fake = Fake::new();
    let hints = |fake: &Fake| preflight(&fake.0, bdf(CARD)).hints;
    assert_eq!(hints(&fake), [Hint::NoHugePages]);
    let folder = fake.0.sys.join("kernel/mm/hugepages/hugepages-2048kB");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("free_hugepages"), "64\n").unwrap();
    assert_eq!(hints(&fake), []);
}

#[test]
fn a_report_ends_with_ready_only_if_nothing_is_in_the_way() {
    let mut report = Report { address: bdf(CARD), obstacles: vec![], hints: vec![Hint::NoHugePages] };
    assert!(report.to_string().ends_with("0000:3b:00.0 is ready\n"));
    report.obstacles.push(Obstacle::NotBound);
    assert!(!report.is_clear() && !report.to_string().contains("is ready"));
}
