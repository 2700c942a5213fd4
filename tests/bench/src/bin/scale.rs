//! Prints what the fast path costs with many QPs, small and large CQs, and large SRQs: `case,of,count,ns_min,ns_median`.
//! Under callgrind each case is dumped by itself.

use anyhow::Result;
use bareverbs_bench::{meter::Meter, scale};
use clap::Parser;

/// The fast path at scale, on a hand-made device.
#[derive(Parser)]
struct Args {
    /// Rounds a case
    #[arg(short, long, default_value_t = 300)]
    rounds: usize,
    /// CPU to run on
    #[arg(short, long, default_value_t = 1)]
    cpu: usize,
    /// QPs on one CQ, and requests that the ring of each holds
    #[arg(long, value_delimiter = ',', default_value = "1x1024,16x256,1024x16,65536x16")]
    qps: Vec<scale::Qps>,
    /// Entries of a CQ
    #[arg(long, value_delimiter = ',', num_args = 0.., default_value = "64,1024,65536,4194304")]
    entries: Vec<usize>,
    /// Slots of an SRQ
    #[arg(long, value_delimiter = ',', num_args = 0.., default_value = "1024,32768")]
    slots: Vec<usize>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut meter = Meter::new(args.cpu, args.rounds.max(1), "")?;
    let print = |of: &'static str| {
        move |(case, count, cost): scale::Row| println!("{case},{of},{count},{:.2},{:.2}", cost.min, cost.median)
    };
    for qps in args.qps {
        let made = scale::qps(&mut meter, qps, &mut print("qps"))?;
        let scale::Made { qps, time, dma_bytes, host_bytes } = made;
        let seconds = time.as_secs_f64();
        println!(
            "# {qps} QPs, each {dma_bytes} bytes of DMA memory and {host_bytes} of its own; all in RTS after {seconds:.2} s"
        );
    }
    for entries in args.entries {
        scale::cq(&mut meter, entries, &mut print("entries"))?;
    }
    for slots in args.slots {
        scale::srq(&mut meter, slots, &mut print("slots"))?;
    }
    Ok(())
}
