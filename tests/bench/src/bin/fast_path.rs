//! Prints what each case of the workload costs: `case,ns_min,ns_median`. Under callgrind each case is dumped by itself.

use anyhow::Result;
use bareverbs_bench::{cases, meter::Meter};
use bareverbs_mlx5::{Local, Shared};
use clap::{Parser, ValueEnum};

/// Posting and polling on a hand-made device.
#[derive(Parser)]
struct Args {
    /// Rounds a case
    #[arg(short, long, default_value_t = 1000)]
    rounds: usize,
    /// CPU to run on
    #[arg(short, long, default_value_t = 1)]
    cpu: usize,
    /// Only cases whose name contains this
    #[arg(short = 'o', long, default_value = "")]
    only: String,
    /// How handles are shared
    #[arg(short, long, value_enum, default_value_t = Sharing::Local)]
    policy: Sharing,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sharing {
    /// One thread, no locks
    Local,
    /// Spin locks
    Shared,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut meter = Meter::new(args.cpu, args.rounds.max(1), &args.only)?;
    let mut print = |(name, cost): &cases::Row| println!("{name},{:.2},{:.2}", cost.min, cost.median);
    match args.policy {
        Sharing::Local => cases::run::<Local>(&mut meter, &mut print),
        Sharing::Shared => cases::run::<Shared>(&mut meter, &mut print),
    }
}
