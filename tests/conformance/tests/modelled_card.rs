//! The suite on the mlx5 driver and two modelled HCAs, over either link, by one thread's handles: the columns of the kept
//! table as a test.
#![cfg(feature = "harness")]

mod kept;

use bareverbs_conformance::homes::ModelHome;
use bareverbs_harness::model::LinkKind;
use bareverbs_mlx5::Local;

const SEED: u64 = 0x6d6c_7835;
const INFINIBAND: &str = "mlx5, process, InfiniBand";
const ROCE: &str = "mlx5, process, RoCE v2";

#[test]
fn every_case_over_infiniband() {
    kept::every_case(INFINIBAND, SEED, || ModelHome::<Local>::new(LinkKind::InfiniBand, SEED));
}

#[test]
fn every_case_over_roce() {
    kept::every_case(ROCE, SEED, || ModelHome::<Local>::new(LinkKind::Ethernet, SEED));
}
