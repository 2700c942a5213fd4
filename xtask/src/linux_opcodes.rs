//! Switches the effect of each command off in turn (`hca_model --no-effect`), and finds out who in a Linux guest notices.
//!
//! A command that the model answers with success while nobody notices that it did nothing is one that no outside tool
//! has judged. What the model itself finds wrong does not count.

use crate::guest::Suite;
use crate::linux::{Link, Options};
use crate::linux_cases::{self, Complaint};
use crate::test::Bench;
use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Commands without an effect that could be missed: why, and the source that shows it.
const EFFECT_FREE: &[(&str, &str)] = &[
    (
        "DESTROY_UMEM",
        "only rdma-core's provider over VFIO issues it: it takes the memory back whatever the device did, never names \
         the number again, and does not look at what the teardown at the end answers (providers/mlx5/mlx5_vfio.c, \
         vfio_devx_umem_dereg and mlx5_vfio_free_context)",
    ),
    (
        "DEALLOC_UAR",
        "Linux unmaps the page itself and never names its number again (core/uar.c, up_rel_func; mlx5_ib main.c, \
         deallocate_uars), and no source says that TEARDOWN_HCA minds what is left; only who allocates as many as the \
         BAR has pages would miss them. The model tells of UARs that are left at the teardown",
    ),
];

/// The jobs that Linux's commands come from, short ones first: a command is tried in those that issue it, until one
/// notices.
fn jobs() -> Vec<(&'static str, Options)> {
    let ib = Options { hcas: 2, limit: 240, ..Options::default() };
    let roce = Options { link: Link::Roce, ..ib.clone() };
    let long = Options { limit: 1200, ..ib.clone() };
    let ethernet = Options { processors: 2, link: Link::Roce, ..long.clone() };
    let old = Options { suite: Suite::Bookworm, ..ib.clone() };
    let old_roce = Options { suite: Suite::Bookworm, ..roce.clone() };
    let modules = Some("vfio_pci vfio_iommu_type1".into());
    vec![
        ("ib_effects.sh", ib),
        ("roce_effects.sh", roce),
        ("data.sh", long.clone()),
        ("ethernet.sh", ethernet),
        ("ib_umr.sh", Options { model_arguments: vec!["--umr".into()], ..long.clone() }),
        ("ib_vfio.sh", Options { iommu: true, modules, ..long }),
        ("ib_smoke.sh", old),
        ("roce_smoke.sh", old_roce),
    ]
}

/// What is known of a command.
struct Noticed {
    name: String,
    job: String,
    /// The line of the job that noticed.
    case: String,
    /// Empty if nobody said anything.
    said: String,
    commit: String,
}

/// What is known of all commands, by opcode; kept in a file.
struct Table(BTreeMap<String, Noticed>);

impl Table {
    /// What was found before. A finding falls with the line of the job that made it.
    fn read(bench: &Bench, kept: &Path) -> Self {
        let mut table = BTreeMap::new();
        for line in fs::read_to_string(kept).unwrap_or_default().lines() {
            if let [opcode, name, job, case, said, commit] =
                line.split('\t').map(str::to_owned).collect::<Vec<_>>().as_slice()
            {
                let script = fs::read_to_string(bench.workspace.root.join("tests/linux").join(job)).unwrap_or_default();
                if !said.is_empty() && (case.is_empty() || script.lines().any(|line| line == case)) {
                    let [name, job, case, said, commit] = [name, job, case, said, commit].map(String::clone);
                    table.insert(opcode.clone(), Noticed { name, job, case, said, commit });
                }
            }
        }
        Self(table)
    }

    fn write(&self, kept: &Path) -> Result<()> {
        let line = |(opcode, n): (&String, &Noticed)| {
            [opcode, &n.name, &n.job, &n.case, &n.said, &n.commit].map(String::as_str).join("\t") + "\n"
        };
        fs::write(kept, self.0.iter().map(line).collect::<String>()).with_context(|| kept.display().to_string())
    }
}

/// Tries what is not known yet, and writes the table into `docs/opcodes.md`. Tells whether every command was noticed.
pub fn run(bench: &Bench, folder: &Path, today: &str, commit: &str) -> Result<bool> {
    let kept = folder.join("opcodes");
    let mut table = Table::read(bench, &kept);
    let (mut all, mut done, mut noticed) = (BTreeSet::new(), Vec::new(), true);
    for (job, options) in jobs() {
        let commands = issued(bench, &folder.join(format!("issued-{job}-{commit}")), job, &options)?;
        let bar = ProgressBar::new(commands.len() as u64);
        for (opcode, name) in commands {
            bar.inc(1);
            if table.0.get(&opcode).is_some_and(|found| !found.said.is_empty()) || effect_free(&name).is_some() {
                all.insert((opcode, name));
                continue;
            }
            let without = Options {
                model_arguments: [options.model_arguments.clone(), vec![format!("--no-effect={opcode}")]].concat(),
                ..options.clone()
            };
            let (complaint, _) = linux_cases::first_complaint(bench, job, without)?;
            let Complaint { case, said } = complaint.unwrap_or_default();
            let said: String = said.replace(['\t', '|'], " ").chars().take(160).collect();
            println!("{opcode} {name}: {job}: {case}: {said}");
            let (job, commit) = (job.to_owned(), commit.to_owned());
            table.0.insert(opcode.clone(), Noticed { name: name.clone(), job, case, said, commit });
            table.write(&kept)?;
            all.insert((opcode, name));
        }
        bar.finish_and_clear();
        done.push(format!("`{job}`"));
        noticed = write(bench, &table, &all, &done, today, commit)?;
    }
    Ok(noticed)
}

fn effect_free(name: &str) -> Option<&'static str> {
    EFFECT_FREE.iter().find(|(free, _)| *free == name).map(|(_, why)| *why)
}

/// The commands of a run in which nothing is switched off, as opcode and name; kept in a file.
fn issued(bench: &Bench, kept: &Path, job: &str, options: &Options) -> Result<BTreeMap<String, String>> {
    if !kept.exists() {
        let (complaint, model) = linux_cases::first_complaint(bench, job, options.clone())?;
        if let Some(Complaint { case, said }) = complaint {
            bail!("{job} fails with all effects on: {case}: {said}");
        }
        fs::write(kept, model)?;
    }
    let text = fs::read_to_string(kept)?;
    let mut commands = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("  0x")) {
        let mut words = line.split(' ');
        if let (Some(opcode), Some(name)) = (words.next(), words.next()) {
            commands.insert(format!("0x{opcode}"), name.to_owned());
        }
    }
    Ok(commands)
}

/// The page, with the commands of the jobs that are done. Tells whether each was noticed.
fn write(
    bench: &Bench,
    table: &Table,
    all: &BTreeSet<(String, String)>,
    done: &[String],
    today: &str,
    commit: &str,
) -> Result<bool> {
    let mut text = format!(
        "# Who notices a command without effect\n\nWritten by `cargo xtask soak` on {today}, at commit {commit}. Each of these {} commands, which are all that Linux \
         issues in {} of `tests/linux` (those of `*_smoke.sh` on Linux 6.1, the others on 6.12), was answered with success and zeros, \
         and nothing was done. Shown is the first that somebody said, the kernel or a tool, and the case that was at work or failed then; \
         what the model itself finds wrong does not count. A tool that only fails, and says nothing, has \"failed\".\n\n\
         | command | job | case | said | at |\n|---|---|---|---|---|\n",
        all.len(),
        done.join(", ")
    );
    let mut noticed = true;
    for (opcode, name) in all {
        if let Some(why) = effect_free(name) {
            text += &format!("| {opcode} {name} | | | effect-free: {why} | |\n");
            continue;
        }
        let Some(found) = table.0.get(opcode) else { bail!("{opcode} {name} was not tried") };
        let Noticed { job, case, said, commit, .. } = found;
        noticed &= !said.is_empty();
        let said = if said.is_empty() { "**nobody**" } else { said };
        let case = if case.is_empty() { "the driver's end".into() } else { format!("`{}`", case.replace('|', "\\|")) };
        text += &format!("| {opcode} {name} | {job} | {case} | {said} | {commit} |\n");
    }
    fs::write(bench.workspace.root.join("docs/opcodes.md"), text).context("docs/opcodes.md")?;
    Ok(noticed)
}
