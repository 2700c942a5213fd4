//! Judges of the frames on the wire: tshark for structure, scapy and an own reading of the IBA for the checksums.
//!
//! tshark does not verify an ICRC, and scapy sees no structure, so each frame goes before both. Before a judge may say
//! anything about our frames it has to accept frames of others and to refuse them with one bit flipped.

use crate::test::{Bench, Tally};
use crate::tools::{self, Tool};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Protocols that tshark looks for in every payload of a queue pair.
const GUESSES: &[&str] =
    &["smc", "smb_direct", "rpcordma", "nvme-rdma", "lnet", "iser", "infiniband_sdp", "infiniband.eoib", "fcoib"];

/// What the frames in a capture file are.
#[derive(Clone, Copy, PartialEq)]
pub enum Link {
    /// Ethernet frames that hold RoCEv2 packets.
    Roce,
    /// InfiniBand frames in ERF records, from the LRH to the VCRC.
    Ib,
}

impl Link {
    /// The number by which pcap files name it.
    fn linktype(self) -> u32 {
        match self {
            Self::Roce => 1,
            Self::Ib => 197,
        }
    }

    /// The protocols tshark sees in every frame of a queue pair.
    fn protocols(self) -> &'static str {
        match self {
            Self::Roce => "udp:infiniband",
            Self::Ib => "erf:infiniband",
        }
    }

    /// The script that recomputes the checksums.
    fn script(self) -> &'static str {
        match self {
            Self::Roce => "roce_icrc.py",
            Self::Ib => "ib_crc.py",
        }
    }
}

/// The outside programs, ready to start.
pub struct Judges<'a> {
    bench: &'a Bench<'a>,
    tshark: Tool,
    python: Tool,
}

impl<'a> Judges<'a> {
    pub fn new(bench: &'a Bench) -> Result<Self> {
        let tshark = tools::tshark(bench.workspace, &bench.shell)?;
        let python = tools::scapy(bench.workspace, &bench.shell)?;
        Ok(Self { bench, tshark, python })
    }

    /// Whether every frame in a capture is what the standards say, and at least as many match each display filter of
    /// tshark as are expected.
    pub fn judge(&self, link: Link, capture: &Path, expected: &[(&str, usize)]) -> Result<()> {
        let seen = self.structure(link, capture)?;
        let checked = self.checksums(link, capture)?;
        ensure!(seen == checked, "tshark sees {seen} frames of queue pairs, {checked} had their checksums verified");
        for (filter, at_least) in expected {
            let found = self.matching(capture, filter)?;
            ensure!(found >= *at_least, "{found} frames match {filter}, expected {at_least}");
        }
        Ok(())
    }

    /// tshark: frames of the expected protocols with known opcodes, and nothing malformed or remarkable in them.
    /// Returns their number.
    fn structure(&self, link: Link, capture: &Path) -> Result<usize> {
        let columns = ["-e", "frame.protocols", "-e", "infiniband.bth.opcode", "-e", "_ws.col.Info"];
        let frames = self.fields(capture, &columns)?;
        let ours: Vec<_> = frames.iter().filter(|line| line.contains(link.protocols())).collect();
        ensure!(!ours.is_empty(), "tshark sees no {} among {} frames", link.protocols(), frames.len());
        if let Some(line) = ours.iter().find(|line| line.contains("Unknown OpCode") && !beyond_tshark(line)) {
            bail!("tshark knows no such opcode: {line}");
        }
        if link == Link::Ib && ours.len() != frames.len() {
            bail!("tshark sees InfiniBand in {} of {} frames only", ours.len(), frames.len());
        }
        self.unremarkable(capture)?;
        Ok(ours.len())
    }

    /// tshark: nothing malformed or remarkable in any frame.
    pub(super) fn unremarkable(&self, capture: &Path) -> Result<()> {
        let filter = "_ws.malformed || _ws.expert || _ws.short || _ws.unreassembled";
        let remarks = self.fields(capture, &["-Y", filter, "-e", "frame.number", "-e", "_ws.expert.message"])?;
        ensure!(remarks.is_empty(), "tshark remarks on {} frames:\n{}", remarks.len(), remarks.join("\n"));
        Ok(())
    }

    /// tshark: how many frames match a display filter.
    pub(super) fn matching(&self, capture: &Path, filter: &str) -> Result<usize> {
        Ok(self.fields(capture, &["-Y", filter, "-e", "frame.number"])?.len())
    }

    /// Every ICRC and VCRC recomputed. Returns the number of frames.
    fn checksums(&self, link: Link, capture: &Path) -> Result<usize> {
        self.counted(link.script(), capture)
    }

    /// A script of `xtask/judges` that has nothing to complain about. Returns the number of frames that it checked.
    pub(super) fn counted(&self, script: &str, capture: &Path) -> Result<usize> {
        let path = self.bench.workspace.root.join("xtask/judges").join(script);
        let text = self.bench.shell.check(self.python.command()?.arg(path).arg(capture))?;
        let count = text.lines().find_map(|line| line.split_once(" frames checked")?.0.parse().ok());
        count.with_context(|| format!("{script} does not say how many frames it checked"))
    }

    /// tshark's fields, a line a frame.
    fn fields(&self, capture: &Path, arguments: &[&str]) -> Result<Vec<String>> {
        let mut tshark = self.tshark.command()?;
        tshark.args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
        // RoCEv2 leaves the UDP checksum out over IPv6 too, as Linux's rdma_rxe does.
        tshark.args(["-o", "udp.ignore_ipv6_zero_checksum:TRUE"]);
        // Payloads are anything: no guesses at protocols above the verbs.
        tshark.args(GUESSES.iter().flat_map(|protocol| ["--disable-protocol", protocol]));
        tshark.args(["-T", "fields", "-r"]);
        let text = self.bench.shell.check(tshark.arg(capture).args(arguments))?;
        let lines = text.lines().filter(|line| !line.starts_with("Running as user"));
        Ok(lines.map(str::to_owned).collect())
    }
}

/// Opcodes that the standards define and tshark 4.0 does not know: extended reliable connections (0xa0 and up) and
/// congestion notification.
fn beyond_tshark(line: &str) -> bool {
    let opcode = line.split('\t').nth(1).and_then(|field| field.parse::<u8>().ok());
    opcode.is_some_and(|opcode| opcode == 0x81 || opcode & 0xe0 == 0xa0)
}

/// The judges themselves: frames that others made pass, each corruption is found, and by whom it has to be found.
pub fn self_test(bench: &Bench) -> Result<Tally> {
    let judges = Judges::new(bench)?;
    let mut tally = Tally::default();
    for (name, link) in [("roce", Link::Roce), ("ib", Link::Ib)] {
        let frames = vectors(bench, name)?;
        let good = write_capture(bench, name, link, &frames)?;
        tally.count(judges.judge(link, &good, &[("infiniband.bth", frames.len())]).context("good frames are refused"));
        tally.count(refuse(judges.judge(link, &good, &[("infiniband.bth", frames.len() + 1)]), "match infiniband.bth"));

        // A flipped bit behind the headers: only the checksums tell.
        let flipped = changed(&frames[frames.len() - 1..], |f| flip(f, link));
        let flipped = write_capture(bench, &format!("{name}-flipped"), link, &flipped)?;
        tally.count(judges.structure(link, &flipped).map(drop).context("tshark has begun to verify the ICRC"));
        tally.count(refuse(judges.checksums(link, &flipped), "ICRC"));

        // The last bytes are missing.
        let cut = write_capture(bench, &format!("{name}-cut"), link, &changed(&frames, |f| f.truncate(f.len() - 8)))?;
        tally.count(refuse(judges.structure(link, &cut), "tshark remarks"));
        tally.count(refuse(judges.checksums(link, &cut), ""));

        // An opcode that is reserved.
        let opcode = write_capture(bench, &format!("{name}-opcode"), link, &changed(&frames, |f| set_opcode(f, link)))?;
        tally.count(refuse(judges.structure(link, &opcode), "no such opcode"));
    }
    // The virtual lane is covered by the VCRC alone.
    let lane = changed(&vectors(bench, "ib")?[3..], |f| f[16] ^= 0x10);
    let lane = write_capture(bench, "ib-lane", Link::Ib, &lane)?;
    tally.count(refuse(judges.checksums(Link::Ib, &lane), "VCRC"));
    Ok(tally)
}

/// A frame of every kind that our wire formats write, judged before any transport uses them.
pub fn formats(bench: &Bench) -> Result<Tally> {
    let judges = Judges::new(bench)?;
    let mut tally = Tally::default();
    bench.shell.check(bench.workspace.cargo().args(["build", "-p", "bareverbs", "--example", "wire_frames"]))?;
    let program = bench.workspace.target.join("debug/examples/wire_frames");
    for (name, link) in [("roce", Link::Roce), ("ib", Link::Ib)] {
        let lines = bench.shell.check(Command::new(&program).arg(name))?;
        let frames = lines.lines().map(bytes).collect::<Result<Vec<_>>>()?;
        let frames = if link == Link::Ib { frames.iter().map(|frame| erf(frame)).collect() } else { frames };
        let capture = write_capture(bench, &format!("{name}-formats"), link, &frames)?;
        let count = frames.len();
        let rc = "infiniband.bth.opcode >= 0 && infiniband.bth.opcode < 32";
        tally.count(judges.judge(link, &capture, &[("infiniband.bth", count), (rc, 20), ("infiniband.atomiceth", 2)]));
    }
    Ok(tally)
}

/// Puts an ERF header (16 bytes) before an InfiniBand frame: type 21, records as long as their frames.
fn erf(frame: &[u8]) -> Vec<u8> {
    let mut record = vec![0; 16];
    record[8..10].copy_from_slice(&[21, 4]);
    record[10..12].copy_from_slice(&(frame.len() as u16 + 16).to_be_bytes());
    record[14..16].copy_from_slice(&(frame.len() as u16).to_be_bytes());
    record.extend(frame);
    record
}

/// Frames of others: hexadecimal text, an empty line between two frames, `#` before comments.
fn vectors(bench: &Bench, name: &str) -> Result<Vec<Vec<u8>>> {
    let path = bench.workspace.root.join(format!("xtask/judges/{name}.hex"));
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let frames = lines.split(|line| line.is_empty()).map(|lines| bytes(&lines.concat()));
    frames.filter(|frame| frame.as_ref().map_or(true, |f| !f.is_empty())).collect()
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    (0..hex.len()).step_by(2).map(|i| Ok(u8::from_str_radix(hex.get(i..i + 2).context("odd digits")?, 16)?)).collect()
}

fn changed(frames: &[Vec<u8>], change: impl Fn(&mut Vec<u8>)) -> Vec<Vec<u8>> {
    let mut frames = frames.to_vec();
    frames.iter_mut().for_each(change);
    frames
}

/// Flips a bit before the checksums, behind the headers. A UDP checksum would tell too: RoCEv2 may leave it out.
fn flip(frame: &mut [u8], link: Link) {
    if link == Link::Roce {
        frame[14 + 20 + 6..][..2].fill(0);
    }
    let at = frame.len() - 9;
    frame[at] ^= 0x40;
}

/// Opcode 0x1f: the last of the reliable connection's, reserved.
fn set_opcode(frame: &mut [u8], link: Link) {
    let bth = match link {
        Link::Roce => 14 + 20 + 8,
        Link::Ib if frame[16 + 1] & 3 == 3 => 16 + 8 + 40,
        Link::Ib => 16 + 8,
    };
    frame[bth] = 0x1f;
}

/// Writes a pcap file, as tcpdump would.
pub(super) fn write_capture(bench: &Bench, name: &str, link: Link, frames: &[Vec<u8>]) -> Result<PathBuf> {
    let mut file: Vec<u8> = Vec::new();
    for word in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65535, link.linktype()] {
        file.extend(u32::to_le_bytes(word));
    }
    for (i, frame) in frames.iter().enumerate() {
        let length = u32::try_from(frame.len())?;
        for word in [u32::try_from(i)?, 0, length, length] {
            file.extend(u32::to_le_bytes(word));
        }
        file.extend(frame);
    }
    let folder = bench.workspace.target.join("xtask/wire");
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{name}.pcap"));
    fs::write(&path, file)?;
    Ok(path)
}

/// Shows that a judge refuses a capture, and for this reason.
pub(super) fn refuse<T>(verdict: Result<T>, reason: &str) -> Result<()> {
    match verdict {
        Ok(_) => bail!("a judge lets a corrupted capture through ({reason})"),
        Err(error) if !format!("{error:#}").contains(reason) => {
            Err(error.context(format!("refused, but not for {reason}")))
        }
        Err(_) => Ok(()),
    }
}
