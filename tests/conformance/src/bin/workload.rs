//! Random workloads by seed: the mlx5 driver on two modelled HCAs, links with faults included.

use anyhow::{Context, Error, Result, anyhow, ensure};
use bareverbs::{Device, Mtu, PortNum};
use bareverbs_conformance::{
    homes::{Buffers, open, plug},
    workload::{Plan, Shape, Stats, run},
};
use bareverbs_harness::{Faults, World, model::LinkKind};
use bareverbs_mlx5::Mlx5;
use bareverbs_model_mlx5::damage;
use clap::Parser;
use indicatif::ProgressBar;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    time::Duration,
};

/// Runs random workloads by seed and compares with a reference: every request completes exactly once and in order,
/// data and guard bytes are right, nothing leaks, no DMA goes astray.
#[derive(Parser)]
struct Args {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Write the frames of the (last) run to a file.
    #[arg(long)]
    pcap: Option<PathBuf>,
    /// Damage payloads behind the back of every checksum: the run must fail.
    #[arg(long)]
    damage: bool,
    /// Say what each seed does.
    #[arg(short, long)]
    verbose: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let bar = ProgressBar::new(args.count);
    let mut total = Total::default();
    for seed in args.seed..args.seed + args.count {
        // The world ends a run that waits for ever with a panic.
        let result = catch_unwind(AssertUnwindSafe(|| one(seed, &args)));
        let result = result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "panic".into());
            Err(anyhow!("{text}"))
        });
        let done = result.with_context(|| format!("seed {seed} (again with: workload --seed {seed} -v)"))?;
        total.add(&done);
        bar.inc(1);
    }
    bar.finish_and_clear();
    println!(
        "seeds {}..{}: {} requests, {} bytes, {} on links with faults, {} frames ({} lost, {} doubled, {} reordered)",
        args.seed,
        args.seed + args.count,
        total.requests,
        total.bytes,
        total.faulty,
        total.frames,
        total.lost,
        total.doubled,
        total.reordered,
    );
    // The plain line that test runners read.
    println!("{} passed, 0 failed", args.count);
    Ok(())
}

#[derive(Default)]
struct Total {
    requests: usize,
    bytes: usize,
    faulty: usize,
    frames: u64,
    lost: u64,
    doubled: u64,
    reordered: u64,
}

impl Total {
    fn add(&mut self, done: &Done) {
        self.requests += done.stats.requests;
        self.bytes += done.stats.bytes;
        self.faulty += usize::from(done.faults != Faults::NONE);
        self.frames += done.frames;
        self.lost += done.lost;
        self.doubled += done.doubled;
        self.reordered += done.reordered;
    }
}

struct Done {
    stats: Stats,
    faults: Faults,
    frames: u64,
    lost: u64,
    doubled: u64,
    reordered: u64,
}

/// The faults of a seed: three of four links have some.
fn faults(seed: u64) -> Faults {
    let none = Faults::NONE;
    match seed % 8 {
        0 | 1 => none,
        2 => Faults { loss: 0.01, ..none },
        3 => Faults { duplicate: 0.02, ..none },
        4 => Faults { reorder: 0.02, ..none },
        5 => Faults { delay: 0.02, delay_by: Duration::from_micros(200), ..none },
        6 => Faults { corrupt: 0.01, ..none },
        _ => Faults { loss: 0.005, duplicate: 0.01, reorder: 0.01, delay: 0.005, ..none },
    }
}

fn one(seed: u64, args: &Args) -> Result<Done> {
    let link = if (seed / 8).is_multiple_of(2) { LinkKind::InfiniBand } else { LinkKind::Ethernet };
    let faults = faults(seed);
    let mut builder = World::builder().seed(seed).faults(faults).write_combining(!(seed / 16).is_multiple_of(2));
    if let Some(path) = &args.pcap {
        builder = builder.capture(link, path)?;
    }
    let world = builder.build();
    if args.damage {
        world.set_corruptor(Box::new(damage::payload));
        world.set_faults(Faults { corrupt_payload: 0.05, ..faults });
    }
    let functions = [0, 1].map(|n| plug(&world, link, n));
    let devices: [Mlx5<_>; 2] = [open(&functions[0]).map_err(Error::msg)?, open(&functions[1]).map_err(Error::msg)?];
    let mtu = devices[0].query_port(PortNum(1))?.active_mtu;
    let shape = Shape { lossy: faults != Faults::NONE, ..Shape::default() };
    let plan = Plan::new(seed, &shape, &devices[0].attributes(), Mtu::min(mtu, Mtu::B4096));
    if args.verbose {
        println!("seed {seed}: {link:?}, {faults:?}");
        for pair in &plan.pairs {
            println!("  {:?} srq {:?} depth {}/{}", pair.kind, pair.srq, pair.send_depth, pair.recv_depth);
        }
    }
    let mut buffers = Buffers::default();
    let stats = run(devices, &plan, |len| buffers.take(len))?;
    let counters = world.links().into_iter().map(|(_, _, c)| c);
    let (mut frames, mut lost, mut doubled, mut reordered) = (0, 0, 0, 0);
    for c in counters {
        frames += c.sent;
        lost += c.lost;
        doubled += c.duplicated;
        reordered += c.reordered;
    }
    for (n, function) in functions.iter().enumerate() {
        ensure!(function.dma_faults().is_empty(), "HCA {n}: {:?}", function.dma_faults());
        ensure!(function.violations().is_empty(), "HCA {n}: {:?}", function.violations());
        let left = (function.dma_outstanding(), function.state_outstanding());
        ensure!(left == (0, 0), "HCA {n}: (DMA, state) memory not given back: {left:?}");
    }
    Ok(Done { stats, faults, frames, lost, doubled, reordered })
}
