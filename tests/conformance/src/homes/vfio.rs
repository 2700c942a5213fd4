//! The mlx5 driver on two functions of this host that are bound to vfio-pci.

use super::{Buffers, card};
use crate::suite::Home;
use bareverbs::RawMemory;
use bareverbs_hal::PciAddress;
use bareverbs_mlx5::Mlx5;
use bareverbs_vfio::{OpenError, Vfio};
use std::string::String;

/// Two functions on one link; the driver opens them anew for each case.
pub struct VfioHome {
    functions: [Vfio; 2],
    buffers: Buffers,
}

impl VfioHome {
    /// Takes the functions.
    pub fn open(addresses: [PciAddress; 2]) -> Result<Self, OpenError> {
        let [a, b] = addresses;
        Ok(Self { functions: [Vfio::open(a)?, Vfio::open(b)?], buffers: Buffers::default() })
    }
}

impl Home for VfioHome {
    type Device = Mlx5<Vfio>;

    fn devices(&mut self) -> Result<[Self::Device; 2], String> {
        card::open_both(&self.functions)
    }

    fn memory(&mut self, len: usize) -> RawMemory {
        self.buffers.take(len)
    }

    /// What the modelled card saw is told by its server.
    fn finish(&mut self, _provoked: Option<&str>) -> Result<(), String> {
        self.buffers = Buffers::default();
        Ok(())
    }
}
