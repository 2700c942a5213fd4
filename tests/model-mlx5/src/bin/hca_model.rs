//! `hca_model`: modelled HCAs for virtual machines, each behind a vfio-user socket, all on one fabric.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use bareverbs_harness::{
    Faults, World,
    model::{BarKind, Bus, DeviceModel, Frame, LinkKind, PciIdentity, Reset, Step},
    vfio_user::Server,
};
use bareverbs_mlx5_prm::cmd::Opcode;
use bareverbs_model_mlx5::{
    Device, Hca, HcaConfig, Report, damage,
    fault::{self, CommandFault, CommandRule},
};
use clap::{Parser, ValueEnum};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

/// Serves modelled ConnectX HCAs to virtual machines until SIGTERM, then tells what happened; the exit status is 3 if
/// a guest did something wrong.
#[derive(Parser)]
#[command(name = "hca_model", version)]
struct Args {
    /// A socket for one `-device vfio-user-pci`; each is one HCA
    #[arg(long = "socket", required = true)]
    sockets: Vec<PathBuf>,
    /// What the ports are
    #[arg(long, value_enum)]
    link: Link,
    /// Give LIDs to InfiniBand ports and bring them up; without, a subnet manager has to
    #[arg(long, value_enum)]
    lid: Option<Lid>,
    /// Which card
    #[arg(long, value_enum, default_value = "cx5")]
    device: Card,
    /// Capture every frame into a file
    #[arg(long)]
    pcap: Option<PathBuf>,
    /// Answer this command with success and do nothing: who notices? May be repeated
    #[arg(long, value_parser = opcode, value_name = "OPCODE")]
    no_effect: Vec<Opcode>,
    /// Join an Ethernet network of datagrams, QEMU's `-netdev dgram`: our socket and the other end's
    #[arg(long, value_name = "LOCAL,REMOTE", value_delimiter = ',')]
    wire: Vec<PathBuf>,
    /// Seed of the faults
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Faults of all links: PROBABILITY of loss, duplicate, reorder, delay, corrupt, or damage that no checksum notices;
    /// as in loss=0.01,reorder=0.1
    #[arg(long, value_parser = faults, default_value = "")]
    fault: Faults,
    /// Let the driver register memory by UMR, which costs Linux time at start for its cache of keys
    #[arg(long)]
    umr: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Link {
    Ib,
    Roce,
}

#[derive(Clone, Copy, ValueEnum)]
enum Lid {
    Auto,
}

#[derive(Clone, Copy, ValueEnum)]
enum Card {
    Cx5,
    Cx6dx,
    Cx7,
}

fn main() -> Result<ExitCode> {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let args = Args::parse();
    // Before any thread, which would inherit the default action.
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("signals")?;
    let kind = if args.link == Link::Ib { LinkKind::InfiniBand } else { LinkKind::Ethernet };
    ensure!(
        kind == LinkKind::Ethernet || args.sockets.len() <= 2,
        "two InfiniBand HCAs are a cable; more need a switch, which is not modelled"
    );
    let mut builder = World::builder().seed(args.seed).threaded(true).quiet_limit(None).faults(args.fault);
    if let Some(path) = &args.pcap {
        builder = builder.capture(kind, path).with_context(|| path.display().to_string())?;
    }
    let world = builder.build();
    world.set_corruptor(Box::new(damage::payload));
    ensure!(matches!(args.wire.len(), 0 | 2), "--wire takes two sockets: LOCAL,REMOTE");
    if let [local, remote] = &args.wire[..] {
        ensure!(kind == LinkKind::Ethernet, "a wire joins RoCE ports to an Ethernet network");
        Wire::plug(&world, local, remote)?;
    }
    let mut cards = Vec::new();
    for (n, path) in (0..).zip(&args.sockets) {
        let hca = Shared(Arc::new(Mutex::new(Hca::new(config(&args, n)))));
        let server = Server::start(&world, Box::new(hca.clone()), path).with_context(|| path.display().to_string())?;
        cards.push((server, hca));
    }
    signals.forever().next();

    let mut wrong = 0;
    for (server, hca) in cards {
        // No guest reaches the card any more.
        let slot = server.slot().clone();
        drop(server);
        // The model is let go at once: the world asks it while it holds what the slot is asked for here.
        let report = hca.lock().report();
        print!("HCA {}: {}\n{}", slot.index(), slot.link_counters(0), tell(&report));
        wrong += slot.violation_count() + slot.dma_fault_count();
        for what in slot.violations() {
            println!("  violation: {what}");
        }
        for record in slot.dma_faults() {
            println!("  refused: {}", record.fault);
        }
    }
    world.stop().context("the capture is incomplete")?;
    Ok(if wrong > 0 { ExitCode::from(3) } else { ExitCode::SUCCESS })
}

fn config(args: &Args, n: u8) -> HcaConfig {
    let config = match args.link {
        Link::Ib => HcaConfig::infiniband(n),
        Link::Roce => HcaConfig::ethernet(n),
    };
    let device = match args.device {
        Card::Cx5 => Device::ConnectX5,
        Card::Cx6dx => Device::ConnectX6Dx,
        Card::Cx7 => Device::ConnectX7,
    };
    let no_effect =
        |&opcode| CommandRule { opcode: Some(opcode), skip: 0, times: u64::MAX, fault: CommandFault::NoEffect };
    let faults = fault::Faults { commands: args.no_effect.iter().map(no_effect).collect(), ..config.faults };
    HcaConfig { device, lid: args.lid.and(config.lid), umr: args.umr, faults, ..config }
}

/// Reads `--no-effect`: a number as in 0x104, or the manual's name.
fn opcode(text: &str) -> Result<Opcode> {
    let number = text.strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok()).map(Opcode);
    let named = || Opcode::ALL.iter().copied().find(|opcode| opcode.name() == Some(text));
    number.or_else(named).with_context(|| format!("{text}: no opcode"))
}

/// Reads `--fault`.
fn faults(spec: &str) -> Result<Faults> {
    let mut faults = Faults::NONE;
    for part in spec.split(',').filter(|p| !p.is_empty()) {
        let (name, value) = part.split_once('=').with_context(|| format!("{part}: NAME=PROBABILITY is expected"))?;
        let value: f64 = value.parse().with_context(|| format!("{part}: no number"))?;
        ensure!((0.0..=1.0).contains(&value), "{part}: a probability is 0 to 1");
        *match name {
            "loss" => &mut faults.loss,
            "duplicate" => &mut faults.duplicate,
            "reorder" => &mut faults.reorder,
            "delay" => &mut faults.delay,
            "corrupt" => &mut faults.corrupt,
            "damage" => &mut faults.corrupt_payload,
            _ => bail!("{name}: there is loss, duplicate, reorder, delay, corrupt, damage"),
        } = value;
    }
    Ok(faults)
}

/// What happened, in lines.
fn tell(report: &Report) -> String {
    let mut text = format!(
        "  completions {}, events {}, firmware pages held {}, DMA refused {}, violations {}\n",
        report.completions, report.events, report.pages, report.dma_faults, report.violation_count
    );
    let mut rows: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for ((opcode, _), count) in &report.commands {
        let row = rows.entry(*opcode).or_default();
        *row = (row.0 + count.executed, row.1 + count.refused);
    }
    for (opcode, (executed, refused)) in rows {
        let name = Opcode(opcode).name().unwrap_or("unknown");
        let refused = if refused > 0 { format!(", refused {refused}") } else { String::new() };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "  {opcode:#05x} {name} {executed}{refused}");
    }
    text
}

/// The other end of an Ethernet network of datagrams, as a device that forwards what it receives.
struct Wire {
    socket: UnixDatagram,
    remote: PathBuf,
}

impl Wire {
    fn plug(world: &World, local: &Path, remote: &Path) -> Result<()> {
        let socket = UnixDatagram::bind(local).with_context(|| local.display().to_string())?;
        let incoming = socket.try_clone()?;
        let slot = world.plug_slot(Box::new(Self { socket, remote: remote.to_owned() }));
        std::thread::spawn(move || {
            let mut frame = vec![0; 65536];
            while let Ok(n) = incoming.recv(&mut frame) {
                slot.transmit(0, frame[..n].to_vec().into());
            }
        });
        Ok(())
    }
}

impl DeviceModel for Wire {
    fn identity(&self) -> PciIdentity {
        PciIdentity {
            vendor: 0xffff,
            device: 0xffff,
            subsystem_vendor: 0,
            subsystem: 0,
            revision: 0,
            class: 0x02_0000,
            bars: [BarKind::None; 6],
            msix_vectors: 0,
        }
    }

    fn ports(&self) -> Vec<LinkKind> {
        vec![LinkKind::Ethernet]
    }

    fn mmio_read(&mut self, _bus: &mut dyn Bus, _bar: u8, _offset: u64, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn mmio_write(&mut self, _bus: &mut dyn Bus, _bar: u8, _offset: u64, _data: &[u8]) {}

    fn receive(&mut self, _bus: &mut dyn Bus, _port: u8, mut frame: Frame) {
        // Nobody may be there yet: the frame is lost, as on a cable with one end.
        let _ = self.socket.send_to(frame.bytes(), &self.remote);
    }

    fn step(&mut self, _bus: &mut dyn Bus) -> Step {
        Step::Idle
    }

    fn next_deadline(&self) -> Option<Duration> {
        None
    }

    fn bus_master(&mut self, _bus: &mut dyn Bus, _on: bool) {}

    fn reset(&mut self, _bus: &mut dyn Bus, _reset: Reset) {}
}

/// An HCA that the world runs and whose report we keep.
#[derive(Clone)]
struct Shared(Arc<Mutex<Hca>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Hca> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceModel for Shared {
    fn identity(&self) -> PciIdentity {
        self.lock().identity()
    }

    fn ports(&self) -> Vec<LinkKind> {
        self.lock().ports()
    }

    fn mmio_read(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, data: &mut [u8]) {
        self.lock().mmio_read(bus, bar, offset, data);
    }

    fn mmio_write(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, data: &[u8]) {
        self.lock().mmio_write(bus, bar, offset, data);
    }

    fn receive(&mut self, bus: &mut dyn Bus, port: u8, frame: Frame) {
        self.lock().receive(bus, port, frame);
    }

    fn step(&mut self, bus: &mut dyn Bus) -> Step {
        self.lock().step(bus)
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.lock().next_deadline()
    }

    fn bus_master(&mut self, bus: &mut dyn Bus, on: bool) {
        self.lock().bus_master(bus, on);
    }

    fn reset(&mut self, bus: &mut dyn Bus, reset: Reset) {
        self.lock().reset(bus, reset);
    }
}
