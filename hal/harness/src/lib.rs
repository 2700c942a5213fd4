//! A PCI bus, DMA memory behind an IOMMU view, a clock and a fabric in one process, for modelled devices.

pub mod model;
