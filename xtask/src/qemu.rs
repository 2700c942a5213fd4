//! `cargo xtask qemu`: boots one image, or two against each other, on QEMU with modelled HCAs.
//!
//! What an image prints behind `> ` is for the other one: it is carried over. The exit status is the image's own; see
//! `hal/unikernel/src/exit.rs` for how an image tells it.

use crate::image::{self, Build};
use crate::linux::{Link, Model, RunFolder, Stopped};
use crate::shell::{Shell, each_line};
use crate::tools::{self, Tool};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Marks a line for the other image.
pub const RELAYED: &str = "> ";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Firmware {
    Seabios,
    Qboot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Version {
    /// One that has vfio-user
    Current,
    /// Debian 12's, for images that use no HCA
    #[value(name = "7.2")]
    Old,
}

#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// One image, or two: the first is the server, the second gets `peer` as its last argument
    #[arg(required = true, num_args = 1..=2)]
    pub images: Vec<String>,
    /// Build without optimization, with assertions
    #[arg(long)]
    pub debug: bool,
    /// What the HCAs' ports are
    #[arg(long, value_enum, default_value = "ib")]
    pub link: Link,
    /// HCAs of each image
    #[arg(long, default_value_t = 1)]
    pub hcas: u8,
    /// Boot without the model and its HCAs
    #[arg(long)]
    pub no_hca: bool,
    #[arg(long, value_enum, default_value = "seabios")]
    pub firmware: Firmware,
    /// Memory in MiB; from 3 GiB on, part of it lies above 4 GiB, and so do wide BARs
    #[arg(long = "mem", default_value_t = 256)]
    pub memory: u32,
    /// Put a PCI Express root port in front of the HCA
    #[arg(long)]
    pub bridge: bool,
    #[arg(long, value_enum, default_value = "current")]
    pub version: Version,
    /// Count instructions instead of time: the same output each time
    #[arg(long)]
    pub icount: bool,
    /// More devices, each as QEMU's -device takes it
    #[arg(long = "device", allow_hyphen_values = true)]
    pub devices: Vec<String>,
    /// More arguments for QEMU, as they are
    #[arg(long = "qemu", allow_hyphen_values = true)]
    pub qemu_arguments: Vec<String>,
    /// More arguments for hca_model
    #[arg(long = "model", allow_hyphen_values = true)]
    pub model_arguments: Vec<String>,
    /// More arguments for the second image
    #[arg(long = "second", allow_hyphen_values = true)]
    pub second: Vec<String>,
    /// Stop after this many seconds, which is an error
    #[arg(long, default_value_t = 300)]
    pub limit: u64,
    /// The images' arguments
    #[arg(last = true)]
    pub arguments: Vec<String>,
}

impl Options {
    /// What the command line takes where it says nothing.
    pub fn of(images: &[&str]) -> Self {
        Self {
            images: images.iter().map(|name| name.to_string()).collect(),
            debug: false,
            link: Link::Ib,
            hcas: 1,
            no_hca: false,
            firmware: Firmware::Seabios,
            memory: 256,
            bridge: false,
            version: Version::Current,
            icount: false,
            devices: vec![],
            qemu_arguments: vec![],
            model_arguments: vec![],
            second: vec![],
            limit: 300,
            arguments: vec![],
        }
    }
}

/// How an image ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With a status of its own.
    Status(u8),
    Panic,
    /// By an exception with this vector.
    Exception(u8),
    /// QEMU ended, but not by the image's word.
    Qemu(i32),
    /// Ended by us, for the other one had failed.
    Stopped,
}

impl End {
    /// QEMU's isa-debug-exit ends with `value << 1 | 1`; the values are those of `hal/unikernel/src/exit.rs`.
    pub fn of(status: ExitStatus) -> Self {
        let code = status.code().unwrap_or(-1);
        match (code >> 1, code & 1) {
            (0x11, 1) => Self::Panic,
            (vector @ 0x20..0x40, 1) => Self::Exception(vector as u8 - 0x20),
            (status @ 0x40..0x80, 1) => Self::Status(status as u8 - 0x40),
            _ => Self::Qemu(code),
        }
    }

    /// The exit status that stands for it: that of a Rust panic, or of a signal.
    fn code(self) -> u8 {
        match self {
            Self::Status(status) => status,
            Self::Panic => 101,
            Self::Exception(vector) => 128 + vector,
            Self::Qemu(_) | Self::Stopped => 125,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::Panic => f.write_str("a panic"),
            Self::Exception(vector) => write!(f, "exception {vector}"),
            Self::Qemu(code) => write!(f, "QEMU's status {code}, without the image's word"),
            Self::Stopped => f.write_str("the end of the other one"),
        }
    }
}

/// How a run ended.
pub struct Outcome {
    pub ends: Vec<End>,
    /// What each image printed.
    pub output: Vec<String>,
    /// How the model ended, and what it said; none without HCAs.
    pub model: Option<(ExitStatus, String)>,
    /// When the images were booted.
    pub booted: Instant,
}

impl Outcome {
    /// Fails unless all images ended with status 0, and the model had nothing to complain of.
    pub fn check(&self) -> Result<()> {
        if let Some(i) = self.failed() {
            bail!("image {} ended with {}\n{}", i + 1, self.ends[i], self.said());
        }
        if let Some((status, text)) = &self.model {
            ensure!(status.success(), "the model ended with {status}\n{text}\n{}", self.said());
        }
        Ok(())
    }

    /// The image that failed, and not just waited for one that had.
    fn failed(&self) -> Option<usize> {
        self.ends.iter().position(|end| !matches!(end, End::Status(0) | End::Stopped))
    }

    /// All that was said.
    pub fn said(&self) -> String {
        let images = self.output.iter().enumerate().map(|(i, text)| format!("image {}:\n{text}", i + 1));
        images.chain(self.model.iter().map(|(_, text)| format!("model:\n{text}"))).collect()
    }
}

pub fn main(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    let bar = Shell::spinner();
    let shell = Shell::new(workspace.target.join("xtask/log/qemu.log"), bar.clone())?;
    let outcome = run(&workspace, &shell, options, |number, line| {
        let line = if options.images.len() == 1 { line.to_owned() } else { format!("{}| {line}", number + 1) };
        bar.suspend(|| println!("{line}"));
    })?;
    bar.finish_and_clear();
    if let Some((status, text)) = &outcome.model {
        eprint!("{text}");
        if !status.success() {
            bail!("the model ended with {status}");
        }
    }
    let failed = outcome.failed().map(|i| outcome.ends[i]);
    if let Some(end) = failed.filter(|end| !matches!(end, End::Status(_))) {
        eprintln!("ended with {end}");
    }
    Ok(ExitCode::from(failed.map_or(0, |end| end.code())))
}

/// Builds the images, boots them and waits for their ends. `show` gets each line they print.
pub fn run(
    workspace: &Workspace,
    shell: &Shell,
    options: &Options,
    mut show: impl FnMut(usize, &str),
) -> Result<Outcome> {
    let build = |name: &String| image::build(workspace, shell, name, Build { debug: options.debug, strip: false });
    let images = options.images.iter().map(build).collect::<Result<Vec<PathBuf>>>()?;
    let qemu = tool(workspace, shell, options)?;
    let folder = RunFolder::new()?;
    let mut model = None;
    if !options.no_hca {
        ensure!(options.version == Version::Current, "QEMU 7.2 has no vfio-user: give --no-hca");
        let cards = (images.len() as u8, options.hcas);
        model = Some(Model::serve(workspace, shell, options.link, cards, &options.model_arguments, &folder.0)?);
    }

    let (sender, lines) = mpsc::channel();
    let booted = Instant::now();
    let (mut machines, mut inputs): (Vec<Stopped>, Vec<ChildStdin>) = (vec![], vec![]);
    for (number, image) in images.iter().enumerate() {
        let sockets = model.as_ref().map_or(&[][..], |model| model.sockets_of(number as u8 + 1));
        let mut command = machine(&qemu, options, sockets)?;
        let mut arguments = options.arguments.clone();
        if number == 1 {
            arguments.extend(options.second.iter().cloned());
            arguments.push("peer".into());
        }
        command.arg("-kernel").arg(image).arg("-append").arg(arguments.join(" "));
        shell.note(&format!("$ {command:?}"));
        let mut child = Stopped(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
        inputs.push(child.0.stdin.take().context("no stdin")?);
        let (said, complained) = (sender.clone(), sender.clone());
        each_line(child.0.stdout.take().context("no stdout")?, move |line| said.send((number, line)).is_ok());
        each_line(child.0.stderr.take().context("no stderr")?, move |line| {
            line.is_none_or(|line| complained.send((number, Some(line))).is_ok())
        });
        machines.push(child);
    }
    drop(sender);

    let mut output = vec![String::new(); machines.len()];
    let mut ends = vec![None; machines.len()];
    let limit = Duration::from_secs(options.limit);
    // An image that failed leaves the other one waiting for it.
    while ends.iter().any(Option::is_none) && !ends.iter().flatten().any(|end| *end != End::Status(0)) {
        let (number, line) = match lines.recv_timeout(limit.saturating_sub(booted.elapsed())) {
            Ok(message) => message,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let ends = vec![End::Stopped; machines.len()];
                bail!("no end after {} s\n{}", options.limit, Outcome { ends, output, model: None, booted }.said())
            }
        };
        let Some(line) = line else {
            ends[number] = Some(End::of(machines[number].0.wait()?));
            continue;
        };
        shell.note(&format!("{}| {line}", number + 1));
        match line.strip_prefix(RELAYED) {
            Some(said) if machines.len() == 2 => {
                // One that has ended listens no more.
                let _ = inputs[1 - number].write_all(format!("{said}\n").as_bytes());
            }
            _ => {
                show(number, &line);
                output[number] += &format!("{line}\n");
            }
        }
    }
    drop(machines);
    // What QEMU itself complained of may come after the end.
    for (number, line) in lines.iter() {
        output[number] += &line.map_or(String::new(), |line| format!("{line}\n"));
    }
    let ends = ends.into_iter().map(|end| end.unwrap_or(End::Stopped)).collect();
    Ok(Outcome { ends, output, model: model.map(Model::finish).transpose()?, booted })
}

/// The QEMU that the options name.
pub fn tool(workspace: &Workspace, shell: &Shell, options: &Options) -> Result<Tool> {
    match options.version {
        Version::Current => tools::qemu(workspace, shell),
        Version::Old => tools::qemu_7_2(workspace, shell),
    }
}

/// QEMU's command line, but for the image.
pub fn machine(qemu: &Tool, options: &Options, sockets: &[PathBuf]) -> Result<Command> {
    let memory = options.memory;
    let mut command = qemu.command()?;
    command.args(["-nodefaults", "-display", "none", "-no-reboot", "-monitor", "none", "-serial", "stdio"]);
    // The model maps the guest's memory by its file descriptor.
    command.args(["-object", &format!("memory-backend-memfd,id=memory,size={memory}M,share=on")]);
    command.args(["-machine", "q35,memory-backend=memory", "-cpu", "max", "-m", &format!("{memory}M")]);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    if options.icount {
        command.args(["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]);
    } else {
        command.args(["-accel", "tcg"]);
    }
    if options.firmware == Firmware::Qboot {
        command.args(["-bios", "qboot.rom"]);
    }
    let mut bus = "pcie.0";
    if options.bridge {
        command.args(["-device", "pcie-root-port,id=root1,chassis=1,slot=1"]);
        bus = "root1";
    }
    for device in &options.devices {
        command.args(["-device", &format!("{device},bus={bus}")]);
    }
    for socket in sockets {
        let card = serde_json::json!({
            "driver": "vfio-user-pci",
            "bus": bus,
            "socket": { "type": "unix", "path": socket.display().to_string() },
        });
        command.args(["-device", &card.to_string()]);
    }
    command.args(&options.qemu_arguments);
    Ok(command)
}
