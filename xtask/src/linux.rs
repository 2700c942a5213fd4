//! `cargo xtask linux`: a command in one or two Linux guests whose cards are modelled ones.

use crate::guest::{Guest, Suite};
use crate::shell::{Shell, each_line};
use crate::tools::{self, Tool};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Modules that a guest with cards loads before the command runs.
const RDMA_MODULES: &str = "mlx5_ib ib_uverbs rdma_ucm ib_umad";

/// How long the model may take to open its sockets, and to end when it is asked to.
const MODEL_LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Link {
    Ib,
    /// InfiniBand without LIDs: a subnet manager has to bring the ports up
    IbUnmanaged,
    Roce,
}

#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// What the cards' ports are
    #[arg(long, value_enum, default_value = "ib")]
    pub link: Link,
    /// Guests, each with a card of its own; the command runs in all of them at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub guests: u8,
    /// Cards in each guest
    #[arg(long, default_value_t = 1)]
    pub hcas: u8,
    /// Boot without the model and its cards
    #[arg(long)]
    pub no_hca: bool,
    /// Where kernel and tools come from
    #[arg(long, value_enum, default_value = "trixie")]
    pub suite: Suite,
    /// Put an Intel IOMMU in front of the cards
    #[arg(long)]
    pub iommu: bool,
    /// Make all cards of a guest functions of one device, which are one IOMMU group
    #[arg(long)]
    pub shared_group: bool,
    /// More devices, as QEMU's -device takes them
    #[arg(long = "device")]
    pub devices: Vec<String>,
    /// Two guests, of which only the first has cards: the second has a network interface on the RoCE fabric
    #[arg(long)]
    pub wire: bool,
    /// Let the guest reboot; it has `/dev/vdc`, at first all zeros, to remember by
    #[arg(long)]
    pub reboot: bool,
    /// What guests before the others run, on the same cards. Each is killed when it says "guest: kill me"
    #[arg(long = "kill-first")]
    pub killed: Vec<String>,
    /// Modules to load before the command; by default those of the cards, without cards none
    #[arg(long)]
    pub modules: Option<String>,
    /// Files to put into the command's folder
    #[arg(long = "copy")]
    pub copies: Vec<PathBuf>,
    /// Memory of a guest in MiB
    #[arg(long, default_value_t = 1024)]
    pub memory: u32,
    /// Processors of a guest
    #[arg(long, default_value_t = 1)]
    pub processors: u8,
    /// Stop after this many seconds, which is an error
    #[arg(long, default_value_t = 600)]
    pub limit: u64,
    /// More arguments for hca_model
    #[arg(long = "model", allow_hyphen_values = true)]
    pub model_arguments: Vec<String>,
    /// What the guests' shells run, joined by spaces as ssh does. There `$GUEST` is 1 or 2; with two guests `$PEER` is the other's address
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

impl Default for Options {
    /// What the command line takes where it says nothing.
    fn default() -> Self {
        Self {
            link: Link::Ib,
            guests: 1,
            hcas: 1,
            no_hca: false,
            suite: Suite::Trixie,
            iommu: false,
            shared_group: false,
            devices: vec![],
            wire: false,
            reboot: false,
            killed: vec![],
            modules: None,
            copies: vec![],
            memory: 1024,
            processors: 1,
            limit: 600,
            model_arguments: vec![],
            command: vec![],
        }
    }
}

/// How a run in guests ended.
pub struct Outcome {
    /// The command's exit status in each guest.
    pub statuses: Vec<i32>,
    /// What it printed in each guest.
    pub output: Vec<String>,
    /// How the model ended, and what it said; none without cards.
    pub model: Option<(ExitStatus, String)>,
    /// When the guests were started.
    pub booted: Instant,
}

/// Guests that came to no end.
#[derive(Debug)]
pub enum NoEnd {
    /// After so many seconds.
    Late(u64),
    /// Before the command had ended.
    Early(usize),
}

impl fmt::Display for NoEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(limit) => write!(f, "no end after {limit} s"),
            Self::Early(guest) => write!(f, "guest {guest} ended before its command"),
        }
    }
}

impl std::error::Error for NoEnd {}

pub fn main(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    let bar = Shell::spinner();
    let shell = Shell::new(workspace.target.join("xtask/log/linux.log"), bar.clone())?;
    let outcome = run(&workspace, &shell, options, |guest, line| {
        let line = if options.guests == 1 { line.to_owned() } else { format!("{guest}| {line}") };
        bar.suspend(|| println!("{line}"));
    })?;
    bar.finish_and_clear();
    if let Some((status, text)) = outcome.model {
        eprint!("{text}");
        if !status.success() {
            bail!("the model ended with {status}");
        }
    }
    let status = outcome.statuses.into_iter().find(|status| *status != 0).unwrap_or(0);
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}

/// Boots the guests, runs the command in each and waits for all of them. `show` gets each line they print.
pub fn run(
    workspace: &Workspace,
    shell: &Shell,
    options: &Options,
    mut show: impl FnMut(usize, &str),
) -> Result<Outcome> {
    let guest = Guest::build(workspace, shell, options.suite)?;
    let qemu = tools::qemu(workspace, shell)?;
    let folder = RunFolder::new()?;
    let mut model = if options.no_hca { None } else { Some(Model::start(workspace, shell, options, &folder.0)?) };

    for command in &options.killed {
        let options = Options { command: vec![command.clone()], ..options.clone() };
        kill(shell, &options, &qemu, &guest, model.as_ref(), &folder.0)?;
    }
    shell.note("booting");
    let (sender, lines) = mpsc::channel();
    let mut machines = Vec::new();
    let booted = Instant::now();
    for number in 1..=options.guests {
        let sockets = model.as_ref().map_or(&[][..], |model| model.sockets_of(number));
        let command = machine(&qemu, &guest, options, number, sockets, &folder.0)?;
        machines.push(Machine::start(shell, command, usize::from(number), &sender)?);
    }
    drop(sender);

    let outcome = follow(shell, options, &mut machines, &lines, &mut show);
    let (statuses, output) = outcome.with_context(|| consoles(&folder.0, options.guests))?;
    for machine in &mut machines {
        machine.wait()?;
    }
    let model = model.take().map(Model::finish).transpose()?;
    Ok(Outcome { statuses, output, model, booted })
}

/// Boots a guest, and kills its QEMU when the guest asks for it.
fn kill(
    shell: &Shell,
    options: &Options,
    qemu: &Tool,
    guest: &Guest,
    model: Option<&Model>,
    folder: &Path,
) -> Result<()> {
    let (sender, lines) = mpsc::channel();
    let sockets = model.map_or(&[][..], |model| model.sockets_of(1));
    let mut machine = Machine::start(shell, machine(qemu, guest, options, 1, sockets, folder)?, 1, &sender)?;
    loop {
        match lines.recv_timeout(Duration::from_secs(options.limit)).context("a guest to be killed says nothing")? {
            (_, Said::Line(line)) if line == "guest: ready" => machine.stdin.write_all(b"\n")?,
            (_, Said::Line(line)) if line == "guest: kill me" => break,
            (_, Said::Line(line)) => shell.note(&line),
            (_, Said::End) => bail!("a guest ended before it was killed\n{}", consoles(folder, 1)),
        }
    }
    drop(machine);
    model.map_or(Ok(()), Model::forgets)
}

/// What a machine tells us.
pub enum Said {
    Line(String),
    /// It has ended, and will say no more.
    End,
}

/// A QEMU with a guest in it.
pub struct Machine {
    child: Stopped,
    pub stdin: ChildStdin,
}

impl Machine {
    pub fn start(shell: &Shell, mut command: Command, number: usize, sender: &Sender<(usize, Said)>) -> Result<Self> {
        shell.note(&format!("$ {command:?}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Stopped(command.spawn()?);
        let (output, errors) = (sender.clone(), sender.clone());
        let stdout = child.0.stdout.take().context("no stdout")?;
        each_line(stdout, move |line| match line {
            Some(line) => output.send((number, Said::Line(line))).is_ok(),
            None => output.send((number, Said::End)).is_ok(),
        });
        let stderr = child.0.stderr.take().context("no stderr")?;
        each_line(stderr, move |line| line.is_none_or(|line| errors.send((number, Said::Line(line))).is_ok()));
        let stdin = child.0.stdin.take().context("no stdin")?;
        Ok(Self { child, stdin })
    }

    /// Waits for QEMU's end.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.0.wait()?)
    }
}

/// Lets the guests go when all are ready, collects what they say, and lets them power off when all have ended.
fn follow(
    shell: &Shell,
    options: &Options,
    machines: &mut [Machine],
    lines: &Receiver<(usize, Said)>,
    show: &mut dyn FnMut(usize, &str),
) -> Result<(Vec<i32>, Vec<String>)> {
    let mut ready = HashSet::new();
    let mut statuses = vec![None; machines.len()];
    let mut output = vec![String::new(); machines.len()];
    let started = Instant::now();
    let limit = Duration::from_secs(options.limit);
    loop {
        let (number, said) = match lines.recv_timeout(limit.saturating_sub(started.elapsed())) {
            Ok(message) => message,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => bail!(NoEnd::Late(options.limit)),
        };
        let Said::Line(line) = said else {
            ensure!(statuses[number - 1].is_some(), NoEnd::Early(number));
            continue;
        };
        shell.note(&format!("{number}| {line}"));
        if line == "guest: ready" {
            ready.insert(number);
            if ready.len() == machines.len() {
                next(machines)?;
            }
        } else if let Some(status) = line.strip_prefix("guest: exit ") {
            statuses[number - 1] = Some(status.parse()?);
            if statuses.iter().all(Option::is_some) {
                next(machines)?;
            }
        } else {
            show(number, &line);
            output[number - 1] += &format!("{line}\n");
        }
    }
    let statuses: Option<Vec<i32>> = statuses.into_iter().collect();
    Ok((statuses.context("a guest ended before its command")?, output))
}

/// The line that the guests wait for.
fn next(machines: &mut [Machine]) -> Result<()> {
    machines.iter_mut().try_for_each(|machine| Ok(machine.stdin.write_all(b"\n")?))
}

/// The end of what the guests' kernels said.
pub fn consoles(folder: &Path, guests: u8) -> String {
    let end = |number| {
        let text = fs::read(folder.join(format!("console{number}"))).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    };
    (1..=guests).map(|number| format!("console of guest {number}:\n{}\n", end(number))).collect()
}

/// QEMU's command line for one guest.
pub fn machine(
    qemu: &Tool,
    guest: &Guest,
    options: &Options,
    number: u8,
    sockets: &[PathBuf],
    folder: &Path,
) -> Result<Command> {
    let memory = options.memory;
    let job = job(options, number, !sockets.is_empty(), folder)?;
    let mut command = qemu.command()?;
    command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-nodefaults", "-display", "none"]);
    if !options.reboot {
        command.arg("-no-reboot");
    }
    command.args(["-smp", &options.processors.to_string(), "-m", &format!("{memory}M")]);
    // The model maps the guest's memory by its file descriptor.
    command.args(["-object", &format!("memory-backend-memfd,id=memory,size={memory}M,share=on")]);
    command.args(["-machine", "q35,memory-backend=memory", "-monitor", "none"]);
    command.arg("-serial").arg(format!("file:{}", folder.join(format!("console{number}")).display()));
    command.args(["-serial", "stdio"]);
    // A busy host starves a guest for seconds. Its kernel must neither complain of that nor, behind an IOMMU, panic
    // because its test of the timer took too long.
    let patience = "no_timer_check nowatchdog rcupdate.rcu_cpu_stall_suppress=1";
    let iommu = if options.iommu { " intel_iommu=on" } else { "" };
    command.arg("-kernel").arg(guest.kernel()).arg("-initrd").arg(guest.initramfs());
    command.args(["-append", &format!("console=ttyS0 quiet panic=-1 {patience}{iommu}")]);
    for drive in [guest.root(), job] {
        command.arg("-drive").arg(format!("file={},if=virtio,format=raw,readonly=on", drive.display()));
    }
    if options.reboot {
        let scratch = folder.join(format!("scratch{number}"));
        fs::write(&scratch, vec![0; 1 << 20])?;
        command.arg("-drive").arg(format!("file={},if=virtio,format=raw", scratch.display()));
    }
    if options.wire && number == 2 {
        let [local, remote] = wire(folder).map(|path| path.display().to_string());
        let ends = format!("local.type=unix,local.path={local},remote.type=unix,remote.path={remote}");
        command.arg("-netdev").arg(format!("dgram,id=wire,{ends}"));
        command.args(["-device", "virtio-net-pci,netdev=wire,mac=52:54:00:00:03:02"]);
    }
    if options.guests == 2 {
        let server = if number == 1 { "on" } else { "off,reconnect-ms=100" };
        let path = folder.join("network");
        command
            .arg("-netdev")
            .arg(format!("stream,id=net,server={server},addr.type=unix,addr.path={}", path.display()));
        command.args(["-device", &format!("virtio-net-pci,netdev=net,mac=52:54:00:00:02:0{number}")]);
    }
    if options.iommu {
        // Before the cards; they need the guest to tell about each mapping.
        command.args(["-device", "intel-iommu,intremap=on,caching-mode=on"]);
    }
    for (i, socket) in sockets.iter().enumerate() {
        let (port, function) = if options.shared_group { (0, i) } else { (i, 0) };
        if function == 0 {
            command.args(["-device", &format!("pcie-root-port,id=port{i},chassis={},slot={}", i + 1, i + 1)]);
        }
        let card = serde_json::json!({
            "driver": "vfio-user-pci",
            "bus": format!("port{port}"),
            "addr": format!("0.{function}"),
            "multifunction": options.shared_group,
            "socket": { "type": "unix", "path": socket.display().to_string() },
        });
        command.args(["-device", &card.to_string()]);
    }
    for device in &options.devices {
        command.args(["-device", device]);
    }
    Ok(command)
}

/// The sockets of QEMU's and of the model's end of a wire.
fn wire(folder: &Path) -> [PathBuf; 2] {
    ["wire-qemu", "wire-model"].map(|name| folder.join(name))
}

/// The drive with what the guest is to run, an archive.
fn job(options: &Options, number: u8, cards: bool, folder: &Path) -> Result<PathBuf> {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    let files = folder.join(format!("job{}", JOBS.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir(&files)?;
    for copy in &options.copies {
        let name = copy.file_name().with_context(|| format!("{} is no file", copy.display()))?;
        fs::copy(copy, files.join(name)).with_context(|| copy.display().to_string())?;
    }
    let modules = options.modules.as_deref().unwrap_or(if cards { RDMA_MODULES } else { "" });
    let peer = if options.guests == 2 { format!("192.0.2.{}", 3 - number) } else { String::new() };
    fs::write(files.join("environment"), format!("export GUEST={number} PEER={peer}\nMODULES='{modules}'\n"))?;
    fs::write(files.join("job"), options.command.join(" ") + "\n")?;
    let archive = files.with_extension("tar");
    let status = Command::new("tar").arg("-C").arg(&files).arg("-cf").arg(&archive).arg(".").status()?;
    ensure!(status.success(), "tar: {status}");
    Ok(archive)
}

/// hca_model, serving one socket a card.
pub struct Model {
    child: Stopped,
    sockets: Vec<PathBuf>,
    cards_each: usize,
    log: PathBuf,
}

impl Model {
    /// Starts a model for the guests of the options.
    pub fn start(workspace: &Workspace, shell: &Shell, options: &Options, folder: &Path) -> Result<Self> {
        let mut arguments = options.model_arguments.clone();
        let mut guests = options.guests;
        if options.wire {
            let [remote, local] = wire(folder).map(|path| path.display().to_string());
            arguments.push(format!("--wire={local},{remote}"));
            guests = 1;
        }
        Self::serve(workspace, shell, options.link, (guests, options.hcas), &arguments, folder)
    }

    /// Starts a model that serves so many guests so many cards each.
    pub fn serve(
        workspace: &Workspace,
        shell: &Shell,
        link: Link,
        (guests, cards_each): (u8, u8),
        arguments: &[String],
        folder: &Path,
    ) -> Result<Self> {
        let mut build = workspace.cargo();
        shell.check(build.args(["build", "--release", "-p", "bareverbs-model-mlx5", "--bin", "hca_model"]))?;
        let cards = usize::from(guests) * usize::from(cards_each);
        let sockets: Vec<PathBuf> = (0..cards).map(|card| folder.join(format!("hca{card}"))).collect();
        let log = folder.join("hca_model");
        let file = fs::File::create(&log)?;
        let mut command = Command::new(workspace.target.join("release/hca_model"));
        command.args(match link {
            Link::Ib => &["--link", "ib", "--lid", "auto"][..],
            Link::IbUnmanaged => &["--link", "ib"],
            Link::Roce => &["--link", "roce"],
        });
        command.args(arguments);
        for socket in &sockets {
            command.arg("--socket").arg(socket);
        }
        shell.note(&format!("$ {command:?}"));
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut model = Self { child: Stopped(command.spawn()?), sockets, cards_each: usize::from(cards_each), log };
        let started = Instant::now();
        while !model.sockets.iter().all(|socket| socket.exists()) {
            if let Some(status) = model.child.0.try_wait()? {
                bail!("hca_model ended with {status}\n{}", model.said());
            }
            ensure!(started.elapsed() < MODEL_LIMIT, "hca_model has not opened its sockets\n{}", model.said());
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(model)
    }

    pub fn sockets_of(&self, guest: u8) -> &[PathBuf] {
        let first = usize::from(guest - 1) * self.cards_each;
        self.sockets.get(first..first + self.cards_each).unwrap_or_default()
    }

    /// Waits until the model has let go of the memory of guests that are gone.
    fn forgets(&self) -> Result<()> {
        let maps = format!("/proc/{}/maps", self.child.0.id());
        let started = Instant::now();
        while fs::read_to_string(&maps)?.contains("/memfd:") {
            ensure!(started.elapsed() < MODEL_LIMIT, "the model keeps the memory of a guest that is gone");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Ends the model, which would serve more guests, and hears what it has to say.
    pub fn finish(mut self) -> Result<(ExitStatus, String)> {
        let pid = Pid::from_child(&self.child.0);
        kill_process(pid, Signal::TERM)?;
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.0.try_wait()? {
                return Ok((status, self.said()));
            }
            ensure!(started.elapsed() < MODEL_LIMIT, "hca_model does not end on SIGTERM\n{}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A process that does not outlive us.
pub struct Stopped(pub Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        // It may have ended before, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder for one run, in the system's place for such: the names of sockets have to be short.
pub struct RunFolder(pub PathBuf);

impl RunFolder {
    pub fn new() -> Result<Self> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("bareverbs-{}-{run}", std::process::id()));
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // What is left over is small, and in the system's folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
