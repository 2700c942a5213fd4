//! Images and a Linux guest on one fabric: an image plays a ping-pong with a program of the guest, one after the other.
//! The images have a modelled HCA; the guest too, or, with a wire, a network interface on the same Ethernet. Both talk
//! over their serial lines; what either prints behind `> ` is carried over.
//!
//! The guest asks for the image of its next case by a line `image: N`, and tells a case's status by `case: STATUS`.

use crate::guest::Guest;
use crate::image::{self, Build};
use crate::linux::{self, Machine, Model, RunFolder, Said};
use crate::qemu::{self, End, RELAYED};
use crate::shell::Shell;
use crate::tools;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The guest's number; images have theirs from 2 on.
const LINUX: usize = 1;

/// A case, as far as it went.
#[derive(Clone)]
pub struct Case {
    /// How the guest's command ended.
    pub status: Option<i32>,
    /// How the image ended.
    pub image: Option<End>,
    /// What the image printed.
    pub output: String,
}

/// How a run ended.
pub struct Outcome {
    pub cases: Vec<Case>,
    /// What the guest printed.
    pub linux: String,
    pub model: (ExitStatus, String),
}

/// Boots the guest, and the images when it asks for them.
pub fn run(workspace: &Workspace, shell: &Shell, linux: &linux::Options, images: &[qemu::Options]) -> Result<Outcome> {
    let guest = Guest::build(workspace, shell, linux.suite)?;
    let build =
        |o: &qemu::Options| image::build(workspace, shell, &o.images[0], Build { debug: o.debug, ..Build::default() });
    let kernels = images.iter().map(build).collect::<Result<Vec<PathBuf>>>()?;
    let qemu = tools::qemu(workspace, shell)?;
    let folder = RunFolder::new()?;
    let model = Model::start(workspace, shell, &linux::Options { guests: 2, ..linux.clone() }, &folder.0)?;
    // On a wire it is the second one that has no card, and the model serves one card only.
    let (place, cards, card) =
        if linux.wire { (2, &[][..], model.sockets_of(1)) } else { (1, model.sockets_of(1), model.sockets_of(2)) };
    let (sender, lines) = mpsc::channel();
    let command = linux::machine(&qemu, &guest, linux, place, cards, &folder.0)?;
    let mut guest = Machine::start(shell, command, LINUX, &sender)?;

    // The image that runs; and the case that the guest is at, whose image waits while the one before still ends, with what
    // the guest has said to it by then.
    let mut running: Option<Machine> = None;
    let mut early = String::new();
    let (mut at, mut waiting, mut over) = (0, false, false);
    let mut cases = vec![Case { status: None, image: None, output: String::new() }; images.len()];
    let mut said_by_linux = String::new();
    let started = Instant::now();
    let limit = Duration::from_secs(linux.limit);
    while !(over && running.is_none()) {
        if waiting && running.is_none() {
            let options = images.get(at).context("the guest asks for an image that there is none of")?;
            let mut command = qemu::machine(&qemu, options, card)?;
            command.arg("-kernel").arg(&kernels[at]).arg("-append").arg(options.arguments.join(" "));
            let mut image = Machine::start(shell, command, LINUX + 1 + at, &sender)?;
            image.stdin.write_all(std::mem::take(&mut early).as_bytes())?;
            (running, waiting) = (Some(image), false);
        }
        let (number, said) = match lines.recv_timeout(limit.saturating_sub(started.elapsed())) {
            Ok(message) => message,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                said_by_linux += "no end in time\n";
                break;
            }
        };
        let line = match (said, &mut running) {
            (Said::Line(line), _) => line,
            (Said::End, Some(image)) if number > LINUX => {
                let end = End::of(image.wait()?);
                cases[number - LINUX - 1].image = Some(end);
                running = None;
                // The guest would wait for it.
                if end != End::Status(0) {
                    break;
                }
                continue;
            }
            (Said::End, _) => bail!("the guest ended before its command\n{}", linux::consoles(&folder.0, place)),
        };
        shell.note(&format!("{number}| {line}"));
        if let (Some(said), LINUX, true) = (line.strip_prefix(RELAYED), number, waiting) {
            early += &format!("{said}\n");
        } else if let Some(said) = line.strip_prefix(RELAYED) {
            let other = match &mut running {
                Some(image) if number == LINUX => image,
                _ => &mut guest,
            };
            // One that has ended listens no more.
            let _ = other.stdin.write_all(format!("{said}\n").as_bytes());
        } else if number > LINUX {
            cases[number - LINUX - 1].output += &format!("{line}\n");
        } else if line == "guest: ready" {
            guest.stdin.write_all(b"\n")?;
        } else if let Some(case) = line.strip_prefix("image: ") {
            (at, waiting) = (case.parse()?, true);
        } else if let Some(status) = line.strip_prefix("case: ") {
            cases[at].status = Some(status.parse()?);
            // The image would wait for it.
            if cases[at].status != Some(0) {
                break;
            }
        } else if line.starts_with("guest: exit ") {
            over = true;
        } else {
            said_by_linux += &format!("{line}\n");
        }
    }
    drop((guest, running));
    Ok(Outcome { cases, linux: said_by_linux, model: model.finish()? })
}
