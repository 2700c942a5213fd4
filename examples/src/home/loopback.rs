//! Two devices of the in-memory provider.

use super::{
    both,
    process::{Failed, Stdout},
};
use crate::{
    devinfo,
    options::{Options, Program},
};
use bareverbs_loopback::{Clock, Net};

pub(crate) fn run(o: &Options<'_>) -> Result<(), Failed> {
    let ours = o.pcap.is_some() || o.fault.is_some() || o.threads || o.link == crate::options::Link::Roce;
    if ours {
        return Err(
            "the loopback device has no link: --pcap, --fault, --threads and --link roce need a modelled HCA".into()
        );
    }
    let net = Net::new(if o.seed.is_some() { Clock::Virtual } else { Clock::Wall });
    let devices = [net.open(), net.open()];
    if o.program == Program::Devinfo {
        for (i, device) in devices.iter().enumerate() {
            devinfo::print(&mut Stdout, &format!("loopback_{i}"), device, o.verbose)?;
        }
        return Ok(());
    }
    both::on_one_thread(o, devices, o.seed.unwrap_or(1))
}
