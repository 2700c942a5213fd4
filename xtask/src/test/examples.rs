//! The groups that run the example programs as a user does.

use super::{Bench, Tally};
use crate::judges::wire::{Judges, Link};
use crate::shell::Finished;
use anyhow::{Result, bail, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Where the programs run: the in-memory provider, and two modelled HCAs in several ways.
const HOMES: [&str; 5] = ["-d loopback", "--link ib", "--link roce", "--link ib --threads", "--link roce -s 4099"];

const PINGPONGS: [&str; 4] = ["rc_pingpong", "uc_pingpong", "ud_pingpong", "srq_pingpong"];
const LINKS: [&str; 2] = ["ib", "roce"];

/// How many seeds the seeds group runs. The long runs are `cargo xtask soak`'s.
const SEEDS: u64 = 10;

/// The programs, built as the README says.
struct Programs<'a> {
    bench: &'a Bench<'a>,
    folder: PathBuf,
}

impl<'a> Programs<'a> {
    fn build(bench: &'a Bench) -> Result<Self> {
        let mut cargo = bench.workspace.cargo();
        bench.shell.check(cargo.args(["build", "--release", "-p", "bareverbs-examples", "--bins"]))?;
        Ok(Self { bench, folder: bench.workspace.target.join("release") })
    }

    fn run(&self, program: &str, arguments: &str) -> Result<Finished> {
        let mut command = Command::new(self.folder.join(program));
        self.bench.shell.run(command.args(arguments.split_whitespace()))
    }

    /// Runs a program that has to succeed.
    fn check(&self, program: &str, arguments: &str) -> Result<String> {
        let finished = self.run(program, arguments)?;
        if !finished.status.success() {
            bail!("{}", finished.complaint());
        }
        Ok(finished.text)
    }

    /// A file of ours for a program's frames.
    fn capture(&self, name: &str) -> Result<PathBuf> {
        let folder = self.bench.workspace.target.join("xtask/captures");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{name}.pcap"));
        if path.exists() {
            fs::remove_file(&path)?;
        }
        Ok(path)
    }
}

/// Every program on every home there is, comparing every byte.
pub fn run(bench: &Bench) -> Result<Tally> {
    let programs = Programs::build(bench)?;
    let mut tally = Tally::default();
    for program in PINGPONGS {
        for home in HOMES {
            // UD has no segments: a message is a packet.
            let home = if program == "ud_pingpong" { home.replace("-s 4099", "-s 1023") } else { home.to_owned() };
            let arguments = format!("-c -n 200 {home}");
            tally.count(if (program, home.as_str()) == ("uc_pingpong", "-d loopback") {
                refuses(&programs, program, &arguments, 1, "not supported")
            } else {
                programs.check(program, &arguments).map(drop)
            });
        }
    }
    for home in ["--link ib", "--link roce", "--link roce --threads"] {
        tally.count(programs.check("ud_pingpong", &format!("--multicast -c -n 200 {home}")).map(drop));
    }
    tally.count(refuses(&programs, "ud_pingpong", "--multicast -d loopback", 1, "attach_mcast"));
    // One byte damaged behind the back of every checksum: -c must see it, and end with 1.
    for program in PINGPONGS {
        for link in LINKS {
            let arguments = format!("-n 1000 -s 1024 -c --link {link} --fault corrupt");
            tally.count(refuses(&programs, program, &arguments, 1, "invalid data"));
        }
    }
    for home in ["-d loopback", "--link ib", "--link roce"] {
        tally.count(programs.check("devinfo", &format!("-v {home}")).map(drop));
    }
    tally.count(programs.check("devinfo", "-i 1").map(drop));
    for (program, arguments, status, why) in REFUSALS {
        tally.count(refuses(&programs, program, arguments, *status, why));
    }
    for program in PINGPONGS.iter().chain(&["devinfo"]) {
        tally.count(tells_its_own(&programs, program));
    }
    for (program, arguments) in [("rc_pingpong", "-n 1"), ("devinfo", ""), ("devinfo", "-h"), ("preflight", "-h")] {
        tally.count(ends_with_its_reader(&programs, program, arguments));
    }
    Ok(tally)
}

/// What programs refuse. Called wrong, they end with 2, as those do that use getopt.
const REFUSALS: &[(&str, &str, i32, &str)] = &[
    ("rc_pingpong", "--no-such-option", 2, "no such option"),
    ("rc_pingpong", "-q 2", 2, "no such option: -q"),
    ("rc_pingpong", "-p 0", 2, "a TCP port from 1 to 65535"),
    ("rc_pingpong", "-m 1000", 2, "256, 512, 1024, 2048 or 4096"),
    ("rc_pingpong", "--fault x", 2, "corrupt, loss, duplicate, reorder or delay"),
    ("rc_pingpong", "--ip 10.0.0.1", 1, "--ip is for Ethernet"),
    ("rc_pingpong", "--dmac 02:00:00:00:00:01", 1, "--dmac is for Ethernet"),
    ("rc_pingpong", "-d loopback --pcap x", 1, "--pcap is for modelled HCAs"),
    ("rc_pingpong", "--json -i 3", 1, "{\"error\":\"server: query_port: "),
    ("rc_pingpong", "--json -q 2", 2, "{\"error\":\"no such option: -q"),
    ("devinfo", "--json", 2, "no such option: --json"),
    ("devinfo", "-i 3", 1, "no port 3"),
    ("devices", "x", 2, "no argument is taken"),
    ("preflight", "", 2, "one PCI address"),
    ("preflight", "x", 2, "not a PCI address"),
];

/// A program's help lists options, one a line, and the program takes no other.
fn tells_its_own(programs: &Programs, program: &str) -> Result<()> {
    let help = programs.check(program, "--help")?;
    let mut lines = help.lines();
    ensure!(lines.next().is_some_and(|line| line.starts_with(&format!("usage: {program} "))), "{help}");
    ensure!(lines.clone().count() > 4 && lines.all(|line| line.starts_with("  ") && line.contains("--")), "{help}");
    for option in ["--num-qp", "--mtu", "--iters", "--verbose", "--json"] {
        let known = !programs.run(program, &format!("{option} x"))?.text.contains("no such option");
        ensure!(help.contains(option) == known, "{program} {option}: known {known}, but its help says\n{help}");
    }
    Ok(())
}

/// Where nobody reads what it prints, a program ends like those that SIGPIPE ends, and without a word.
fn ends_with_its_reader(programs: &Programs, program: &str, arguments: &str) -> Result<()> {
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let mut command = Command::new(programs.folder.join(program));
    let output = command.args(arguments.split_whitespace()).stdout(writer).stderr(Stdio::piped()).output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() == Some(128 + 13) && words.is_empty(),
        "{program} {arguments} without a reader ended with {}, and said {words:?}",
        output.status
    );
    Ok(())
}

/// A program that has to end with this status, and to say why.
fn refuses(programs: &Programs, program: &str, arguments: &str, status: i32, why: &str) -> Result<()> {
    let finished = programs.run(program, arguments)?;
    let refused = finished.status.code() == Some(status) && finished.text.contains(why);
    ensure!(refused, "expected status {status} and {why:?}: {}", finished.complaint());
    Ok(())
}

/// A seed is a run: twice the same output and the same frames, with faults on the link too.
pub fn seeds(bench: &Bench) -> Result<Tally> {
    let programs = Programs::build(bench)?;
    let mut tally = Tally::default();
    for seed in 1..=SEEDS {
        let program = PINGPONGS[seed as usize % PINGPONGS.len()];
        let link = LINKS[seed as usize / PINGPONGS.len() % LINKS.len()];
        // Only a reliable connection outlives a loss.
        let fault = if matches!(program, "rc_pingpong" | "srq_pingpong") { "--fault loss" } else { "" };
        tally.count(same_twice(&programs, program, &format!("-c -n 100 --link {link} --seed {seed} {fault}")));
    }
    Ok(tally)
}

fn same_twice(programs: &Programs, program: &str, arguments: &str) -> Result<()> {
    let run = |name| -> Result<_> {
        let capture = programs.capture(name)?;
        let text = programs.check(program, &format!("{arguments} --pcap {}", capture.display()))?;
        Ok((text.replace(name, ""), fs::read(capture)?))
    };
    let (first, second) = (run("seed-first")?, run("seed-second")?);
    ensure!(first.1.len() > 24, "{program} {arguments}: no frames were captured");
    ensure!(first.0 == second.0, "{program} {arguments}: output differs:\n{}\n{}", first.0, second.0);
    ensure!(first.1 == second.1, "{program} {arguments}: frames differ");
    Ok(())
}

/// What the programs put on the wire, before the judges.
pub fn wire(bench: &Bench) -> Result<Tally> {
    const N: usize = 50;
    let programs = Programs::build(bench)?;
    let judges = Judges::new(bench)?;
    let mut tally = Tally::default();
    // Opcodes of IBA table "OpCode field": RC SEND First and Last, Acknowledge; UC SEND; UD SEND Only.
    for (program, expected) in [
        (
            "rc_pingpong",
            &[
                ("infiniband.bth.opcode == 0", 2 * N),
                ("infiniband.bth.opcode == 2", 2 * N),
                ("infiniband.bth.opcode == 17", 2),
            ][..],
        ),
        ("uc_pingpong", &[("infiniband.bth.opcode == 32", 2 * N), ("infiniband.bth.opcode == 34", 2 * N)]),
        ("ud_pingpong", &[("infiniband.bth.opcode == 100 && infiniband.deth", 2 * N)]),
        ("srq_pingpong", &[("infiniband.bth.opcode == 0", 2 * N), ("infiniband.bth.opcode == 17", 2)]),
    ] {
        for (name, link) in [("ib", Link::Ib), ("roce", Link::Roce)] {
            tally.count(judged(&programs, &judges, (program, ""), name, link, N, expected));
        }
    }
    // Datagrams to a group: of InfiniBand behind a GRH, over Ethernet to a multicast MAC.
    let datagrams = "infiniband.bth.opcode == 100 && infiniband.bth.destqp == 0xffffff";
    for (name, link, group) in [
        ("ib", Link::Ib, "infiniband.grh.dgid == ff12:601b:ffff::ba5e && infiniband.lrh.dlid == 0xc001"),
        ("roce", Link::Roce, "ip.dst == 239.255.186.94 && eth.dst == 01:00:5e:7f:ba:5e"),
    ] {
        let expected = [(datagrams, 2 * N), (group, 2 * N)];
        tally.count(judged(&programs, &judges, ("ud_pingpong", "--multicast"), name, link, N, &expected));
    }
    Ok(tally)
}

fn judged(
    programs: &Programs,
    judges: &Judges,
    (program, option): (&str, &str),
    name: &str,
    link: Link,
    n: usize,
    expected: &[(&str, usize)],
) -> Result<()> {
    let capture = programs.capture(&format!("{program}{option}-{name}"))?;
    let size = if program == "ud_pingpong" { 1024 } else { 2048 };
    let run = format!("{option} -c -n {n} -s {size} --link {name} --seed 1 --pcap {}", capture.display());
    programs.check(program, &run)?;
    judges.judge(link, &capture, expected)
}
