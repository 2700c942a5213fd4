//! `img_guest`: checks the HAL of this crate on the first HCA, or on QEMU's edu device, which shows its DMA; on an HCA it
//! then is the server of an RC ping-pong on InfiniBand, against whatever sits behind the serial line.
#![no_std]
#![no_main]

use bareverbs::Destroy;
use bareverbs_examples::{
    address::Address,
    endpoint::{Endpoint, Progress},
    options::{Options, Program},
    report,
};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::ids;
use bareverbs_unikernel::{FunctionInfo, Machine, println, serial::Serial};
use bareverbs_unikernel_guest::{
    card, check,
    hal::{Function, Hal},
    kernel::Kernel,
};
use core::fmt::Display;
use heapless::String;
use spin::Once;

bareverbs_unikernel::entry!(main);

/// A failure that was told.
struct Told;

/// Tells of a failure with what was tried.
trait During<T> {
    fn during(self, what: &str) -> Result<T, Told>;
}

impl<T, E: Display> During<T> for Result<T, E> {
    fn during(self, what: &str) -> Result<T, Told> {
        self.map_err(|e| {
            println!("img_guest: {what}: {e}");
            Told
        })
    }
}

fn main(machine: &'static Machine) -> u8 {
    match try_hal(machine) {
        Ok(()) => 0,
        Err(Told) => 1,
    }
}

fn try_hal(machine: &'static Machine) -> Result<(), Told> {
    static FUNCTION: Once<Function> = Once::new();
    let kernel = Kernel(machine);
    let is_hca = |f: &FunctionInfo| ids::find(f.vendor, f.device).is_some();
    let info = kernel.functions().find(|f| is_hca(f) || check::is_edu(f));
    let info = info.ok_or("there is neither an HCA nor an edu device").during("PCI")?;
    // The edu device drives 28 address bits.
    let function = Function::new(kernel, info, 1 << 28).ok_or("no memory, or no ECAM").during("taking the function")?;
    let hal = Hal(FUNCTION.call_once(|| function));
    hal.silence().during("silencing the function")?;

    let broken = check::check(&hal, info);
    println!("{broken} broken");
    if broken > 0 {
        return Err(Told);
    }
    if is_hca(info) { ping_pong(machine, hal) } else { Ok(()) }
}

fn ping_pong(machine: &Machine, hal: Hal) -> Result<(), Told> {
    let options = Options::parse(Program::RcPingpong, machine.arguments()).during("the command line")?;
    let device = card::open(hal).during("opening the HCA")?;
    let mut end =
        Endpoint::new(device.clone(), &options, 0, 1, |len| card::buffer(hal, len)).during("making the objects")?;
    let local: Address = end.addresses().next().unwrap_or_default();
    let remote: Address = hear().parse().map_err(|_| "no address").during("the other end's address")?;
    end.connect(&options, &[remote]).during("connecting")?;
    println!("> {local}");
    hear();
    end.start().during("the first message")?;
    while end.step().during("a message")? != Progress::Done {}
    let outcome = end.outcome();
    // The other end may still wait for its last acknowledgement.
    println!("> end");
    hear();
    end.close().during("closing")?;
    device.destroy().map_err(|refused| refused.error).during("closing the HCA")?;
    // The serial port takes all.
    let _ = report::local(&mut Serial, &local);
    let _ = report::remote(&mut Serial, &remote);
    let _ = outcome.lines(&mut Serial);
    Ok(())
}

/// The next line of the other end.
fn hear() -> String<64> {
    let mut line = String::new();
    loop {
        match Serial.get() {
            Some(b'\r' | b'\n') if line.is_empty() => {}
            Some(b'\r' | b'\n') => return line,
            // A longer line is none of ours, and will not be understood.
            Some(byte) => drop(line.push(byte.into())),
            None => core::hint::spin_loop(),
        }
    }
}
