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
    if let Some(option) = o.of_the_model() {
        return Err(format!("{option} is for modelled HCAs: the loopback device has no link").into());
    }
    let net = Net::new(if o.seed.is_some() { Clock::Virtual } else { Clock::Wall });
    let devices = [net.open(), net.open()];
    if o.program == Program::Devinfo {
        for (i, device) in devices.iter().enumerate() {
            devinfo::print(&mut Stdout, &format!("loopback_{i}"), device, o.ib_port, o.verbose)?;
        }
        return Ok(());
    }
    both::on_one_thread(o, devices, o.seed.unwrap_or(1))
}
