//! An image and a Linux guest on one fabric, each with a modelled HCA: the image plays a ping-pong with a program of the
//! guest. Both talk over their serial lines; what either prints behind `> ` is carried over to the other.

use crate::guest::Guest;
use crate::image::{self, Build};
use crate::linux::{self, Machine, Model, RunFolder, Said};
use crate::qemu::{self, End, RELAYED};
use crate::shell::Shell;
use crate::tools;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use std::io::Write;
use std::process::ExitStatus;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The guest, and the image, as the lines of both are numbered.
const LINUX: usize = 1;
const IMAGE: usize = 2;

/// How a run ended.
pub struct Outcome {
    /// The guest's command.
    pub status: i32,
    pub image: End,
    /// What guest and image printed.
    pub output: [String; 2],
    pub model: (ExitStatus, String),
}

impl Outcome {
    /// Fails unless both ended with 0 and the model had nothing to complain of.
    pub fn check(&self) -> Result<()> {
        let right = self.status == 0 && self.image == End::Status(0) && self.model.0.success();
        ensure!(right, "Linux {}, the image {}, the model {}\n{}", self.status, self.image, self.model.0, self.said());
        Ok(())
    }

    /// All that was said.
    pub fn said(&self) -> String {
        format!("Linux:\n{}image:\n{}model:\n{}", self.output[0], self.output[1], self.model.1)
    }
}

/// Boots the guest, and when it is ready the image.
pub fn run(workspace: &Workspace, shell: &Shell, linux: &linux::Options, image: &qemu::Options) -> Result<Outcome> {
    let guest = Guest::build(workspace, shell, linux.suite)?;
    let how = Build { debug: image.debug, strip: false };
    let kernel = image::build(workspace, shell, &image.images[0], how)?;
    let folder = RunFolder::new()?;
    let model = Model::serve(workspace, shell, linux.link, (2, 1), &linux.model_arguments, &folder.0)?;
    let (sender, lines) = mpsc::channel();
    let command = linux::machine(&tools::qemu(workspace, shell)?, &guest, linux, 1, model.sockets_of(1), &folder.0)?;
    let mut machines = vec![Machine::start(shell, command, LINUX, &sender)?];

    let (mut status, mut end) = (None, None);
    let mut output = [String::new(), String::new()];
    let started = Instant::now();
    let limit = Duration::from_secs(linux.limit);
    while status.is_none() || end.is_none() {
        let (number, said) = match lines.recv_timeout(limit.saturating_sub(started.elapsed())) {
            Ok(message) => message,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                bail!("no end after {} s\nLinux:\n{}image:\n{}", linux.limit, output[0], output[1])
            }
        };
        let line = match said {
            Said::Line(line) => line,
            Said::End if number == IMAGE => {
                let image = End::of(machines[IMAGE - 1].wait()?);
                end = Some(image);
                // The guest would wait for it.
                if image != End::Status(0) {
                    break;
                }
                continue;
            }
            Said::End => bail!("the guest ended before its command\n{}", linux::consoles(&folder.0, 1)),
        };
        shell.note(&format!("{number}| {line}"));
        if line == "guest: ready" {
            machines[LINUX - 1].stdin.write_all(b"\n")?;
            // Not before: what it says would be taken for the word to go.
            let mut command = qemu::machine(workspace, shell, image, model.sockets_of(2))?;
            command.arg("-kernel").arg(&kernel).arg("-append").arg(image.arguments.join(" "));
            machines.push(Machine::start(shell, command, IMAGE, &sender)?);
        } else if let Some(said) = line.strip_prefix("guest: exit ") {
            status = Some(said.parse()?);
            // The image would wait for it.
            if status != Some(0) {
                break;
            }
        } else if let Some(said) = line.strip_prefix(RELAYED) {
            let other = machines.get_mut(2 - number).context("the guest spoke before there was an image")?;
            // One that has ended listens no more.
            let _ = other.stdin.write_all(format!("{said}\n").as_bytes());
        } else {
            output[number - 1] += &format!("{line}\n");
        }
    }
    drop(machines);
    Ok(Outcome { status: status.unwrap_or(-1), image: end.unwrap_or(End::Stopped), output, model: model.finish()? })
}
