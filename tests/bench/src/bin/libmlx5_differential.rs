//! Compares rings and completions of our driver with libmlx5's for random requests; see [`bareverbs_bench::differential`].

use anyhow::Result;
use bareverbs_bench::differential;
use clap::Parser;
use std::path::PathBuf;

/// Compares our driver with libmlx5, request by request.
#[derive(Parser)]
struct Args {
    /// The program made of `libmlx5/differential.c`
    libmlx5: PathBuf,
    /// Seed of the requests
    #[arg(short, long, default_value_t = 1)]
    seed: u64,
    /// Number of requests
    #[arg(short, long, default_value_t = 10_000)]
    count: usize,
}

fn main() -> Result<()> {
    let Args { libmlx5, seed, count } = Args::parse();
    differential::run(&libmlx5, seed, count)?;
    println!("{count} requests, seed {seed}: equal");
    Ok(())
}
