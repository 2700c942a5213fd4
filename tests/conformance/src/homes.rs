//! Homes in the process: the loopback provider, and the mlx5 driver on two modelled HCAs.

use crate::suite::Home;
use bareverbs::{Device, Gid, GidEntry, GidType, LinkLayer, PortNum, PortState, RawMemory};
use bareverbs_harness::{Function, World, model::LinkKind};
use bareverbs_loopback::{Clock, Net};
use bareverbs_mlx5::{Config, Mlx5};
use bareverbs_model_mlx5::{Hca, HcaConfig};
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    boxed::Box,
    format,
    ptr::NonNull,
    string::{String, ToString},
    vec::Vec,
};

const PORT: PortNum = PortNum(1);

/// Memory for regions, given back when this goes.
#[derive(Default)]
pub struct Buffers(Vec<(NonNull<u8>, Layout)>);

impl Buffers {
    /// Zeroed memory, at an offset in its page that is the same in each run of a seed.
    pub fn take(&mut self, len: usize) -> RawMemory {
        let offset = self.0.len() * 648 % 4096;
        let layout = Layout::from_size_align(offset + len.max(1), 4096).expect("a length of memory");
        // SAFETY: the layout is not empty.
        let ptr = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
        self.0.push((ptr, layout));
        // SAFETY: the layout has room for the offset.
        let ptr = unsafe { ptr.add(offset) };
        // SAFETY: the memory lives until this goes, after all regions; nobody else has it.
        unsafe { RawMemory::new(NonNull::slice_from_raw_parts(ptr, len)) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for (ptr, layout) in self.0.drain(..) {
            // SAFETY: allocated in `take` with this layout, freed once.
            unsafe { dealloc(ptr.as_ptr(), layout) };
        }
    }
}

/// The loopback provider: a net for each case.
#[derive(Default)]
pub struct LoopbackHome(Buffers);

impl Home for LoopbackHome {
    type Device = bareverbs_loopback::Loopback;

    fn devices(&mut self) -> Result<[Self::Device; 2], String> {
        let net = Net::new(Clock::Virtual);
        Ok([net.open(), net.open()])
    }

    fn memory(&mut self, len: usize) -> RawMemory {
        self.0.take(len)
    }

    fn finish(&mut self, _provoked: bool) -> Result<(), String> {
        self.0 = Buffers::default();
        Ok(())
    }
}

/// Two modelled ConnectX HCAs on one link: a world for each case.
pub struct ModelHome {
    link: LinkKind,
    seed: u64,
    functions: Vec<Function>,
    buffers: Buffers,
}

impl ModelHome {
    /// All worlds take this seed.
    pub fn new(link: LinkKind, seed: u64) -> Self {
        Self { link, seed, functions: Vec::new(), buffers: Buffers::default() }
    }
}

impl Home for ModelHome {
    type Device = Mlx5<Function>;

    fn devices(&mut self) -> Result<[Self::Device; 2], String> {
        let world = World::new(self.seed);
        self.functions = (0..2).map(|n| plug(&world, self.link, n)).collect();
        let [a, b] = [open(&self.functions[0])?, open(&self.functions[1])?];
        for device in [&a, &b] {
            let up = || device.query_port(PORT).map(|p| p.state == PortState::Active).map_err(|e| e.to_string());
            while !up()? {
                device.relax();
            }
            while device.service().map_err(|e| e.to_string())?.is_some() {}
        }
        Ok([a, b])
    }

    fn memory(&mut self, len: usize) -> RawMemory {
        self.buffers.take(len)
    }

    fn finish(&mut self, provoked: bool) -> Result<(), String> {
        self.buffers = Buffers::default();
        for (n, function) in self.functions.drain(..).enumerate() {
            let left = [function.dma_outstanding(), function.state_outstanding(), function.mappings_outstanding()];
            if left != [0; 3] {
                return Err(format!("HCA {n}: (DMA memory, state memory, mappings) not given back: {left:?}"));
            }
            if let Some(fault) = function.dma_faults().first() {
                return Err(format!("HCA {n}: stray DMA: {fault:?}"));
            }
            if let Some(violation) = function.violations().first().filter(|_| !provoked) {
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

/// Opens a function; on Ethernet its port gets the link-local GID.
pub fn open(function: &Function) -> Result<Mlx5<Function>, String> {
    let error = |e: bareverbs::Error| e.to_string();
    let device = Mlx5::open(function.clone(), Config::default()).map_err(error)?;
    let port = device.query_port(PORT).map_err(error)?;
    if port.link_layer == LinkLayer::Ethernet {
        let entry = GidEntry { gid: Gid::link_local(port.mac), kind: GidType::RoceV2, mac: port.mac, vlan: None };
        device.set_gid(PORT, 0, &entry).map_err(error)?;
    }
    Ok(device)
}
