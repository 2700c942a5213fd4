//! The suite on the mlx5 driver and two modelled HCAs, over either link: the table of `cargo xtask test conformance` as a
//! test.
#![cfg(feature = "harness")]

use bareverbs_conformance::{
    homes::ModelHome,
    suite::{self, Home, Verdict},
};
use bareverbs_harness::model::LinkKind;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const SEED: u64 = 0x6d6c_7835;

/// A case has failed on a link: the other link's, where most likely the same would fail, need not go on.
static FAILED: AtomicBool = AtomicBool::new(false);

fn every_case(link: LinkKind) {
    println!("seed {SEED:#x}");
    let mut passed = 0;
    for case in suite::table::<<ModelHome as Home>::Device>().into_iter().flat_map(|(_, cases)| cases) {
        assert!(!FAILED.load(Relaxed), "a case failed on the other link");
        match suite::run(&mut ModelHome::new(link, SEED), &case, SEED) {
            Verdict::Pass => passed += 1,
            Verdict::Unsupported(_) => {}
            Verdict::Fail(why) => {
                FAILED.store(true, Relaxed);
                panic!("{}: {why}", case.name);
            }
        }
    }
    println!("{passed} cases passed");
    assert!(passed >= 170);
}

#[test]
fn every_case_over_infiniband() {
    every_case(LinkKind::InfiniBand);
}

#[test]
fn every_case_over_roce() {
    every_case(LinkKind::Ethernet);
}
