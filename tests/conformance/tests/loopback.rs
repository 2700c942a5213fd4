//! The suite on the loopback provider.

mod kept;

use bareverbs::{Device, Mtu, RawMemory};
use bareverbs_conformance::{
    homes::LoopbackHome,
    suite::{self, Home},
    workload::{Plan, Shape, run},
};
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

#[test]
fn every_case() {
    kept::every_case("loopback, process", 1, LoopbackHome::default);
}

#[test]
fn names_are_told_apart() {
    let mut seen = std::collections::BTreeSet::new();
    for case in suite::table::<<LoopbackHome as Home>::Device>().into_iter().flat_map(|(_, cases)| cases) {
        assert!(seen.insert(case.name), "two cases are called {}", case.name);
        assert!(!case.source.is_empty() && !case.says.is_empty(), "{}", case.name);
    }
}
