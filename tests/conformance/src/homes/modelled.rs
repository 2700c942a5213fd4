//! The mlx5 driver on two modelled HCAs in the process.

use super::{Buffers, card};
use crate::suite::Home;
use bareverbs::RawMemory;
use bareverbs_harness::{Function, World, model::LinkKind};
use bareverbs_mlx5::{Local, Mlx5, Policy};
use bareverbs_model_mlx5::{Hca, HcaConfig};
use core::marker::PhantomData;
use std::{boxed::Box, format, string::String, vec::Vec};

/// Two modelled ConnectX HCAs on one link: a world for each case.
pub struct ModelHome<P = Local> {
    link: LinkKind,
    seed: u64,
    functions: Vec<Function>,
    buffers: Buffers,
    policy: PhantomData<P>,
}

impl<P: Policy> ModelHome<P> {
    /// All worlds take this seed.
    pub fn new(link: LinkKind, seed: u64) -> Self {
        Self { link, seed, functions: Vec::new(), buffers: Buffers::default(), policy: PhantomData }
    }
}

impl<P: Policy> Home for ModelHome<P> {
    type Device = Mlx5<Function, P>;

    fn devices(&mut self) -> Result<[Self::Device; 2], String> {
        let world = World::new(self.seed);
        let functions = [0, 1].map(|n| plug(&world, self.link, n));
        self.functions = functions.to_vec();
        card::open_both(&functions)
    }

    fn memory(&mut self, len: usize) -> RawMemory {
        self.buffers.take(len)
    }

    fn finish(&mut self, provoked: Option<&str>) -> Result<(), String> {
        self.buffers = Buffers::default();
        for (n, function) in self.functions.drain(..).enumerate() {
            let left = [function.dma_outstanding(), function.state_outstanding(), function.mappings_outstanding()];
            if left != [0; 3] {
                return Err(format!("HCA {n}: (DMA memory, state memory, mappings) not given back: {left:?}"));
            }
            if let Some(fault) = function.dma_faults().first() {
                return Err(format!("HCA {n}: stray DMA: {fault:?}"));
            }
            let is_wrong = |violation: &&String| provoked.is_none_or(|words| !violation.contains(words));
            if let Some(violation) = function.violations().iter().find(is_wrong) {
                return Err(format!("HCA {n}: {violation}"));
            }
        }
        Ok(())
    }
}

/// Puts a modelled HCA into a world.
pub fn plug(world: &World, link: LinkKind, n: u8) -> Function {
    world.plug(Box::new(Hca::new(match link {
        LinkKind::InfiniBand => HcaConfig::infiniband(n),
        LinkKind::Ethernet => HcaConfig::ethernet(n),
    })))
}
