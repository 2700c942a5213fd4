//! Why a function was not opened.

use crate::{
    preflight::{Report, Told, preflight},
    sysfs::Host,
};
use bareverbs_hal::PciAddress;
use std::{error::Error, fmt, io};

/// Why a function was not opened: what the system said, and what a look around found.
#[derive(Debug)]
pub struct OpenError {
    /// What [`preflight`] found.
    pub report: Report,
    cause: io::Error,
}

impl OpenError {
    pub(crate) fn new(host: &Host, address: PciAddress, cause: io::Error) -> Self {
        Self { report: preflight(host, address), cause }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.report.address;
        match &self.report.obstacles[..] {
            [] => write!(f, "{address} is on vfio-pci, but opening it failed: {}", self.cause),
            [first, rest @ ..] => {
                write!(f, "{}", Told(address, first))?;
                rest.iter().try_for_each(|obstacle| write!(f, "\n{}", Told(address, obstacle)))
            }
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}
