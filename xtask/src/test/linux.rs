//! The groups that run in Linux guests.

use super::{Bench, Tally};
use crate::guest::Suite;
use crate::judges::wire::{self, Judges};
use crate::linux::{self, Link, Options};
use crate::linux_cases;
use anyhow::{Context, Result, ensure};

/// The machinery itself: both kernels boot, output and exit status of a command arrive, guests reach each other.
pub fn boot(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    for (suite, kernel) in [(Suite::Bookworm, "6.1."), (Suite::Trixie, "6.12.")] {
        tally.count(boots(bench, suite, kernel));
    }
    tally.count(reach_each_other(bench));
    Ok(tally)
}

fn boots(bench: &Bench, suite: Suite, kernel: &str) -> Result<()> {
    let options = Options { no_hca: true, suite, command: vec!["uname -r; exit 7".into()], ..Options::default() };
    let outcome = linux::run(bench.workspace, &bench.shell, &options, |_, _| {})?;
    ensure!(outcome.statuses == [7], "the command's exit status 7 came back as {:?}", outcome.statuses);
    ensure!(outcome.output[0].starts_with(kernel), "Linux {kernel} was expected: {:?}", outcome.output);
    Ok(())
}

fn reach_each_other(bench: &Bench) -> Result<()> {
    let command = vec!["ping -c 1 -W 60 $PEER && exit $GUEST".into()];
    let options = Options { no_hca: true, guests: 2, command, ..Options::default() };
    let outcome = linux::run(bench.workspace, &bench.shell, &options, |_, _| {})?;
    ensure!(outcome.statuses == [1, 2], "guests do not reach each other: {:?}", outcome.output);
    Ok(())
}

/// Every InfiniBand tool between two cards of a guest.
pub fn ib(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "ib.sh", Options { hcas: 2, ..Options::default() })
}

/// A subnet manager that finds both cards over the cable, and brings their ports up.
pub fn opensm(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "opensm.sh", Options { link: Link::IbUnmanaged, hcas: 2, ..Options::default() })
}

/// The same model under the kernel of Debian 12.
pub fn ib_old_kernel(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "ib_smoke.sh", Options { hcas: 2, suite: Suite::Bookworm, ..Options::default() })
}

/// Between the cards of two guests.
pub fn ib_two_guests(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "ib_smoke.sh", Options { guests: 2, ..Options::default() })
}

/// Behind a virtual IOMMU that maps and unmaps all the time.
pub fn ib_iommu(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "ib_smoke.sh", Options { hcas: 2, iommu: true, ..Options::default() })
}

/// Frames, RoCE and the connection manager between two cards of a guest.
pub fn roce(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "roce.sh", Options { link: Link::Roce, hcas: 2, ..Options::default() })
}

/// The same model under the kernel of Debian 12.
pub fn roce_old_kernel(bench: &Bench) -> Result<Tally> {
    let suite = Suite::Bookworm;
    linux_cases::run(bench, "roce_smoke.sh", Options { link: Link::Roce, hcas: 2, suite, ..Options::default() })
}

/// Between the cards of two guests.
pub fn roce_two_guests(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "roce_smoke.sh", Options { link: Link::Roce, guests: 2, ..Options::default() })
}

/// Offloads, filters and queues of Ethernet between two cards of a guest.
pub fn ethernet(bench: &Bench) -> Result<Tally> {
    let options = Options { link: Link::Roce, hcas: 2, processors: 2, ..Options::default() };
    linux_cases::run(bench, "ethernet.sh", options)
}

/// The same under the kernel of Debian 12, behind a virtual IOMMU.
pub fn ethernet_old_kernel_iommu(bench: &Bench) -> Result<Tally> {
    let suite = Suite::Bookworm;
    let options = Options { link: Link::Roce, hcas: 2, processors: 2, suite, iommu: true, ..Options::default() };
    linux_cases::run(bench, "ethernet.sh", options)
}

/// Cards whose guests are killed or reboot in the middle of their traffic, and drivers that come and go.
pub fn ib_lifecycle(bench: &Bench) -> Result<Tally> {
    let killed = vec![". ./lib.sh; busy; echo guest: kill me; wait".to_owned()];
    let options = Options { hcas: 2, iommu: true, reboot: true, killed, ..Options::default() };
    linux_cases::run(bench, "lifecycle.sh", options)
}

/// Bytes and completion statuses, over InfiniBand.
pub fn ib_data(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "data.sh", Options { hcas: 2, ..Options::default() })
}

/// Bytes and completion statuses, over RoCE v2.
pub fn roce_data(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "roce_data.sh", Options { link: Link::Roce, hcas: 2, ..Options::default() })
}

/// The judge of bytes itself: it sees what is wrong.
pub fn ib_damage(bench: &Bench) -> Result<Tally> {
    let model_arguments = ["--fault", "damage=1"].map(String::from).to_vec();
    linux_cases::run(bench, "damage.sh", Options { hcas: 2, model_arguments, ..Options::default() })
}

/// rdma-core's own VFIO provider on a card behind an IOMMU, without any kernel driver.
pub fn ib_vfio(bench: &Bench) -> Result<Tally> {
    // The second card is the other end of the cable: the first one's queue pairs talk to each other.
    let modules = Some("vfio_pci vfio_iommu_type1".into());
    linux_cases::run_idle(bench, "ib_vfio.sh", Options { hcas: 2, iommu: true, modules, ..Options::default() })
}

/// Linux registers its users' memory by UMR.
pub fn ib_umr(bench: &Bench) -> Result<Tally> {
    let model_arguments = vec!["--umr".into()];
    linux_cases::run(bench, "ib_umr.sh", Options { hcas: 2, model_arguments, ..Options::default() })
}

/// Against Linux's RoCE in software.
pub fn rxe(bench: &Bench) -> Result<Tally> {
    linux_cases::run(bench, "rxe.sh", Options { link: Link::Roce, guests: 2, wire: true, ..Options::default() })
}

/// What Linux makes the cards send, before the judges of the wire. Opcodes are those of the IBA's table "OpCode field".
pub fn wire(bench: &Bench) -> Result<Tally> {
    let expected = [
        ("infiniband.bth.opcode == 0", 5),
        ("infiniband.bth.opcode == 2", 5),
        ("infiniband.bth.opcode == 4", 5),
        ("infiniband.bth.opcode == 6", 5),
        ("infiniband.bth.opcode == 8", 5),
        ("infiniband.bth.opcode == 12", 5),
        ("infiniband.bth.opcode == 13", 5),
        ("infiniband.bth.opcode == 15", 5),
        ("infiniband.bth.opcode == 17", 5),
        ("infiniband.bth.opcode == 18", 10),
        ("infiniband.bth.opcode == 19", 5),
        ("infiniband.bth.opcode == 20", 5),
        ("infiniband.bth.opcode == 32", 5),
        ("infiniband.bth.opcode == 34", 5),
        ("infiniband.bth.opcode == 100 && infiniband.deth", 40),
    ];
    let judges = Judges::new(bench)?;
    let mut tally = Tally::default();
    for (job, link, wire) in [("ib_wire.sh", Link::Ib, wire::Link::Ib), ("roce_wire.sh", Link::Roce, wire::Link::Roce)]
    {
        let capture = bench.workspace.target.join("xtask/log").join(job).with_extension("pcap");
        let model_arguments = vec![format!("--pcap={}", capture.display())];
        let options = Options { link, hcas: 2, model_arguments, ..Options::default() };
        tally.add(linux_cases::run(bench, job, options)?);
        tally.count(judges.judge(wire, &capture, &expected).with_context(|| capture.display().to_string()));
    }
    Ok(tally)
}
