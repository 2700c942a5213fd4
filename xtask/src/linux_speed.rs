//! `cargo xtask linux-speed`: how fast the modelled card is under QEMU, beside Linux's RoCE in software between the same
//! two guests in the same run.

use crate::linux::{self, Link, Options};
use crate::linux_cases;
use crate::shell::Shell;
use crate::test::Bench;
use crate::workspace::Workspace;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::process::ExitCode;

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
    let outcome = linux::run(&workspace, &bench.shell, &options, |_, _| {})?;
    bar.finish_and_clear();
    // The client's figures: it is the one that waits.
    let mut rows: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for line in outcome.output[1].lines().filter_map(|line| line.strip_prefix("speed ")) {
        if let [what, device, number, unit] = line.split(' ').collect::<Vec<_>>()[..] {
            rows.entry(what).or_default().insert(device, format!("{number} {unit}"));
        }
    }
    ensure!(!rows.is_empty(), "nothing was measured:\n{}", outcome.output.join("\n"));
    println!("{:<24} {:>20} {:>20}", "", "modelled ConnectX", "rdma_rxe");
    for (what, row) in rows {
        let shown = |device| row.get(device).map_or("", String::as_str);
        println!("{what:<24} {:>20} {:>20}", shown("mlx5_0"), shown("rxe0"));
    }
    Ok(ExitCode::SUCCESS)
}
