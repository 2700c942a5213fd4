//! The suite on the loopback provider.

use bareverbs::{Device, Mtu, RawMemory};
use bareverbs_conformance::workload::{Plan, Shape, run};
use bareverbs_loopback::{Clock, Net};
use std::ptr::NonNull;

fn buffer(len: usize) -> RawMemory {
    let bytes: &'static mut [u8] = Box::leak(vec![0; len].into_boxed_slice());
    // SAFETY: leaked, so it stays; nobody else has the slice.
    unsafe { RawMemory::new(NonNull::from(bytes)) }
}

#[test]
fn random_workloads() {
    let shape = Shape { bytes: 1 << 18, longest: 1 << 16, ..Shape::default() };
    let mut requests = 0;
    for seed in 0..50 {
        let net = Net::new(Clock::Virtual);
        let devices = [net.open(), net.open()];
        let plan = Plan::new(seed, &shape, &devices[0].attributes(), Mtu::B4096);
        let stats = run(devices, &plan, buffer).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        requests += stats.requests;
    }
    println!("seeds 0..50: {requests} requests");
    assert!(requests > 1000);
}
