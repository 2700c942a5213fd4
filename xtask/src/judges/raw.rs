//! Frames of raw packet QPs before the judges of the wire: what the driver's queue sends, and what the responder of the
//! examples answers. tshark judges structure and checksums, scapy builds each frame anew and holds answers to questions.

use super::wire::{Judges, Link, refuse, write_capture};
use crate::test::{Bench, Tally};
use anyhow::{Context, Result, anyhow, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// At least so many frames match each display filter of tshark.
const EXPECTED: &[(&str, usize)] = &[
    ("arp.opcode == 1", 2),
    ("arp.opcode == 2", 2),
    ("icmpv6.type == 135", 2),
    ("icmpv6.type == 136", 2),
    ("icmpv6.nd.na.flag.s == 0", 1),
    ("ip && udp.checksum.status == 1 && ip.checksum.status == 1", 10),
    ("ipv6 && udp.checksum.status == 1", 5),
    ("vlan.id == 7", 5),
    ("udp.length == 1408", 3),
];

/// The frames are right; with any of them damaged the judges say so.
pub fn run(bench: &Bench) -> Result<Tally> {
    let judges = Judges::new(bench)?;
    let capture = bench.workspace.target.join("xtask/wire/raw.pcap");
    fs::create_dir_all(capture.parent().context("no folder")?)?;
    let mut build = bench.workspace.cargo();
    bench.shell.check(build.args(["build", "-p", "bareverbs-examples", "--example", "raw_frames"]))?;
    let program = bench.workspace.target.join("debug/examples/raw_frames");
    bench.shell.check(Command::new(program).arg(&capture))?;

    let mut tally = Tally::default();
    tally.count(judge(&judges, &capture).context("the frames"));
    for (filter, at_least) in EXPECTED {
        let found = judges.matching(&capture, filter)?;
        let seen =
            if found >= *at_least { Ok(()) } else { Err(anyhow!("{found} frames match {filter}, not {at_least}")) };
        tally.count(seen);
    }
    let frames = frames(&fs::read(&capture)?)?;
    for (name, by, damage) in DAMAGES {
        let mut damaged = frames.clone();
        damage(&mut damaged);
        ensure!(damaged != frames, "{name}: nothing is damaged");
        let capture = write_capture(bench, &format!("raw-{name}"), Link::Roce, &damaged)?;
        tally.count(refuse(judge(&judges, &capture), by).context(*name));
    }
    Ok(tally)
}

fn judge(judges: &Judges, capture: &Path) -> Result<()> {
    judges.unremarkable(capture)?;
    let all = judges.matching(capture, "frame")?;
    let checked = judges.counted("raw_frames.py", capture)?;
    ensure!(all == checked, "tshark sees {all} frames, scapy {checked}");
    Ok(())
}

/// A damage: its name, a word of the complaint that it has to bring about, and what it does to the frames.
type Damage = (&'static str, &'static str, fn(&mut Vec<Vec<u8>>));

// The capture begins with question and answer by ARP twice, then by neighbour discovery twice; datagrams follow, of which
// the first has a VLAN tag.
const DAMAGES: &[Damage] = &[
    ("arp-cut", "tshark remarks", |frames| frames[1].truncate(14 + 20)),
    ("arp-of-another", "Duplicate IP address", |frames| frames[1][14 + 8 + 5] ^= 1),
    ("arp-answer-to-another", "raw_frames.py", |frames| frames[1][5] ^= 1),
    ("arp-no-answer", "raw_frames.py", |frames| drop(frames.remove(3))),
    ("arp-twice", "raw_frames.py", |frames| frames.insert(2, frames[1].clone())),
    ("advertisement-cut", "tshark remarks", |frames| frames[5].truncate(14 + 40 + 30)),
    ("advertisement-bit", "Bad checksum", |frames| frames[5][14 + 40 + 8 + 15] ^= 1),
    ("advertisement-hops", "raw_frames.py", |frames| frames[5][14 + 7] = 64),
    ("ipv4-header", "Bad checksum", |frames| frames[9][14 + 8] ^= 1),
    ("ipv4-length", "tshark remarks", |frames| frames[9][14 + 3] += 40),
    ("udp-ipv4", "Bad checksum", |frames| flip_last(&mut frames[18])),
    ("udp-ipv6", "Bad checksum", |frames| flip_last(&mut frames[19])),
];

fn flip_last(frame: &mut [u8]) {
    if let Some(last) = frame.last_mut() {
        *last ^= 1;
    }
}

/// The frames of a pcap file.
fn frames(file: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut rest = file.get(24..).context("no pcap file")?;
    let mut frames = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<16>() {
        let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let (frame, next) = behind.split_at_checked(length).context("the last frame is cut off")?;
        frames.push(frame.to_vec());
        rest = next;
    }
    Ok(frames)
}
