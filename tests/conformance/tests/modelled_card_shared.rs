//! The suite on the mlx5 driver and two modelled HCAs by handles that threads may share. A program of its own: with the
//! driver a second time, the other would take twice as long to build, for each mutant of `cargo xtask mutants`.
#![cfg(feature = "harness")]

mod kept;

use bareverbs_conformance::homes::ModelHome;
use bareverbs_harness::model::LinkKind;
use bareverbs_mlx5::Shared;

const SEED: u64 = 0x6d6c_7835;
const ROCE: &str = "mlx5, process, RoCE v2";

/// Locks do not know of links: once, over the one with more cases.
#[test]
fn every_case_with_locks() {
    kept::every_case(ROCE, SEED, || ModelHome::<Shared>::new(LinkKind::Ethernet, SEED));
}
