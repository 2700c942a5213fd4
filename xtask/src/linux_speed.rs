//! `cargo xtask linux-speed`: how fast the modelled card is under QEMU, beside Linux's RoCE in software between the same
//! two guests in the same run.

use crate::linux::{self, Link, Options};
use crate::linux_cases;
use crate::shell::Shell;
use crate::soak;
use crate::test::Bench;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;

/// Where the figures are kept.
const PAGE: &str = "docs/linux-speed.md";

/// 64 KiB messages shall be as fast as this, in MiB/s: 1 GB/s.
const BANDWIDTH: f64 = 1e9 / (1 << 20) as f64;

/// What is measured, and its goal, if it has one of its own.
const ROWS: &[(&str, &str, Option<f64>)] = &[
    ("bandwidth_write_64k", "WRITE of 64 KiB", Some(BANDWIDTH)),
    ("bandwidth_send_64k", "SEND of 64 KiB", None),
    ("bandwidth_read_64k", "READ of 64 KiB", None),
    ("messages_write_64", "WRITEs of 64 bytes", None),
    ("messages_send_64", "SENDs of 64 bytes", None),
    ("latency_write_64", "latency of a WRITE of 64 bytes", None),
    ("latency_send_64", "latency of a SEND of 64 bytes", None),
    ("latency_read_64", "latency of a READ of 64 bytes", None),
];

/// Guests and tools are those of `tests/linux/speed.sh`.
pub fn main() -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    let bar = Shell::spinner();
    let bench = Bench {
        workspace: &workspace,
        shell: Shell::new(workspace.target.join("xtask/log/linux-speed.log"), bar.clone())?,
    };
    let options = Options {
        link: Link::Roce,
        guests: 2,
        limit: 900,
        copies: linux_cases::files(&bench)?,
        command: vec![". ./lib.sh; . ./speed.sh".into()],
        ..Options::default()
    };
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    let outcome = linux::run(&workspace, &bench.shell, &options, |_, _| {})?;
    bar.finish_and_clear();
    // The client's figures: it is the one that waits.
    let mut found: BTreeMap<(&str, &str), (f64, &str)> = BTreeMap::new();
    for line in outcome.output[1].lines().filter_map(|line| line.strip_prefix("speed ")) {
        if let [what, device, number, unit] = line.split(' ').collect::<Vec<_>>()[..] {
            found.insert((what, device), (number.parse().with_context(|| line.to_owned())?, unit));
        }
    }
    let table = table(&found).with_context(|| outcome.output.join("\n"))?;
    let (commit, today) = (soak::commit(&workspace)?, soak::today()?);
    let page = format!(
        "# How fast the modelled card is under QEMU\n\nWritten by `cargo xtask linux-speed` on {today}, at commit {commit}, on \
         a machine with {} processors and a load average of {load} at the beginning. Two emulated guests (TCG) with Linux 6.12 and perftest, one processor each; RoCE v2 at an MTU \
         of 1024. `rdma_rxe` is Linux's RoCE in software between the same two guests over QEMU's virtio-net, in the same run. A `!` marks what \
         is slower than `rdma_rxe`, or than the goal of 1 GB/s.\n\n{table}",
        std::thread::available_parallelism()?
    );
    fs::write(workspace.root.join(PAGE), &page).context(PAGE)?;
    println!("{page}");
    Ok(ExitCode::SUCCESS)
}

fn table(found: &BTreeMap<(&str, &str), (f64, &str)>) -> Result<String> {
    let figure =
        |what, device| found.get(&(what, device)).copied().with_context(|| format!("{what} of {device} is missing"));
    let mut text = "| | modelled ConnectX | `rdma_rxe` | |\n|---|---|---|---|\n".to_owned();
    for &(what, name, goal) in ROWS {
        let ((ours, unit), (theirs, _)) = (figure(what, "mlx5_0")?, figure(what, "rxe0")?);
        let faster = if unit == "us" { theirs / ours } else { ours / theirs };
        let missed = faster < 1.0 || goal.is_some_and(|goal| ours < goal);
        let mark = if missed { " !" } else { "" };
        text += &format!("| {name} | {ours} {unit} | {theirs} {unit} | {faster:.1} times as fast{mark} |\n");
    }
    let (read, unit) = figure("mmio_read", "mlx5_0")?;
    Ok(text + &format!("| read of a register | {read} {unit} | | |\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_is_marked() {
        let mut found = BTreeMap::from([(("mmio_read", "mlx5_0"), (50.0, "us"))]);
        for (what, _, _) in ROWS {
            let (ours, unit) = if what.starts_with("latency") { (1.0, "us") } else { (2000.0, "MiB/s") };
            found.insert((what, "mlx5_0"), (ours, unit));
            found.insert((what, "rxe0"), (2.0, unit));
        }
        assert!(!table(&found).unwrap().contains('!'));
        found.insert(("bandwidth_write_64k", "mlx5_0"), (900.0, "MiB/s"));
        assert_eq!(table(&found).unwrap().matches('!').count(), 1, "below 1 GB/s");
        found.insert(("latency_read_64", "mlx5_0"), (2.1, "us"));
        assert_eq!(table(&found).unwrap().matches('!').count(), 2, "slower than rdma_rxe");
        found.remove(&("messages_send_64", "rxe0"));
        assert!(table(&found).is_err(), "a figure is missing");
    }
}
