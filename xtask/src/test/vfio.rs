//! The groups that run our driver in Linux guests, over VFIO.

use super::{Bench, Tally};
use crate::guest::Suite;
use crate::linux::{Link, Options};
use crate::linux_cases;
use anyhow::Result;

/// The HAL, with a device that copies memory.
pub fn hal(bench: &Bench) -> Result<Tally> {
    // A root port of its own makes a group of its own.
    let devices = vec!["pcie-root-port,id=edu,chassis=99,slot=99".into(), "edu,bus=edu".into()];
    linux_cases::run_idle(bench, "vfio_hal.sh", Options { no_hca: true, devices, ..options(bench)? })
}

/// Every mistake that preflight knows, ordinary users, killed programs.
pub fn preflight(bench: &Bench) -> Result<Tally> {
    let mut tally = linux_cases::run(bench, "vfio.sh", Options { hcas: 2, ..options(bench)? })?;
    let shared = Options { hcas: 2, shared_group: true, ..options(bench)? };
    tally.add(linux_cases::run_idle(bench, "vfio_group.sh", shared)?);
    tally.add(linux_cases::run_idle(bench, "vfio_no_iommu.sh", Options { iommu: false, ..options(bench)? })?);
    Ok(tally)
}

/// Our ping-pongs against ours, in two guests.
pub fn pair(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "vfio_pair.sh", Options { guests: 2, ..options(bench)? })
}

/// Our ping-pongs against the kernel's driver and rdma-core, in both roles.
pub fn kernel(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "vfio_kernel.sh", Options { guests: 2, ..options(bench)? })
}

/// Our ping-pongs against ours over RoCE.
pub fn pair_roce(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "vfio_pair.sh", Options { guests: 2, link: Link::Roce, ..options(bench)? })
}

/// Over RoCE against the kernel's driver and rdma-core, whose neighbour table has to ask us.
pub fn kernel_roce(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "vfio_kernel_roce.sh", Options { guests: 2, link: Link::Roce, ..options(bench)? })
}

/// Guests with an IOMMU, no module loaded, and our programs.
pub fn options(bench: &Bench) -> Result<Options> {
    let mut build = bench.workspace.cargo();
    build.args(["build", "--release", "-p", "bareverbs-examples", "--bins"]);
    bench.shell.check(&mut build)?;
    let mut build = bench.workspace.cargo();
    build.args(["build", "--release", "-p", "bareverbs-vfio", "--example", "vfio_hal"]);
    bench.shell.check(&mut build)?;
    let release = bench.workspace.target.join("release");
    let programs = ["devices", "preflight", "devinfo", "rc_pingpong", "uc_pingpong", "ud_pingpong", "srq_pingpong"];
    let mut copies: Vec<_> = programs.iter().map(|program| release.join(program)).collect();
    copies.push(release.join("examples/vfio_hal"));
    // The programs need a C library that is not older than this host's.
    Ok(Options { iommu: true, modules: Some(String::new()), copies, suite: Suite::Trixie, ..Options::default() })
}
