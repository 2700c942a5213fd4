//! A machine without an operating system: the mlx5 driver on the first HCA that PCI has, or the one that `-d` names, and
//! the other end of a run behind the serial line.

use super::{
    port,
    serial_line::{self, SerialLine},
};
use crate::{
    address::Address,
    devinfo,
    endpoint::{self, Endpoint, MAX_QP, Progress},
    options::{Options, Program},
    report,
};
use bareverbs::{Destroy, Device, Error, RawMemory};
use bareverbs_hal::{PciAddress, PciFunction};
use bareverbs_mlx5::{Config, Mlx5};
use bareverbs_mlx5_prm::ids;
use bareverbs_unikernel::{Function, Machine, OpenError, println, serial::Serial};
use core::{fmt, ptr::NonNull};
use heapless::Vec;

/// The seed of what `-c` sends: both ends need the same.
const SEED: u64 = 1;

/// Objects that a ping-pong needs; firmware then asks for less memory than it does for a server's share.
fn config() -> Config {
    Config { max_qps: 128, max_cqs: 128, max_srqs: 128, max_pds: 128, max_regions: 1024, ..Config::default() }
}

/// Why a run failed.
enum Failure {
    NotAnAddress(&'static str),
    NoHca,
    NotAnHca(PciAddress, u16, u16),
    Open(OpenError),
    Driver(PciAddress, Error),
    Port(PciAddress, port::Failure),
    Exchange(serial_line::Failure),
    End(PciAddress, endpoint::Failure),
    Devinfo(devinfo::Failure),
    Close(PciAddress, Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnAddress(text) => write!(f, "-d {text}: no PCI address (0000:00:02.0)"),
            Self::NoHca => f.write_str("no PCI function is a ConnectX-4 or later or a BlueField"),
            Self::NotAnHca(at, vendor, device) => {
                write!(f, "{at} is {vendor:04x}:{device:04x}, a ConnectX-4 or later or a BlueField was expected")
            }
            Self::Open(e) => e.fmt(f),
            Self::Driver(at, e) => write!(f, "{at}: the card does not come up: {e}"),
            Self::Port(at, e) => write!(f, "{at}: {e}"),
            Self::Exchange(e) => e.fmt(f),
            Self::End(at, e) => write!(f, "{at}: {e}"),
            Self::Devinfo(e) => e.fmt(f),
            Self::Close(at, e) => write!(f, "{at}: closing: {e}"),
        }
    }
}

impl From<serial_line::Failure> for Failure {
    fn from(e: serial_line::Failure) -> Self {
        Self::Exchange(e)
    }
}

/// A ping-pong with the options of the machine's command line. The status is 0, 1 if it failed, 2 if it was called wrong.
pub fn ping_pong(machine: &'static Machine, program: Program) -> u8 {
    main(machine, program, one_end)
}

/// Tells what the HCA is.
pub fn devinfo(machine: &'static Machine) -> u8 {
    let print = |_, o: &Options<'_>, device: Device5, _| {
        devinfo::print(&mut Serial, "mlx5_0", &device, o.ib_port, o.verbose).map_err(Failure::Devinfo)
    };
    main(machine, Program::Devinfo, print)
}

type Device5 = Mlx5<Function>;

fn main(
    machine: &'static Machine,
    program: Program,
    run: impl FnOnce(&'static Machine, &Options<'_>, Device5, PciAddress) -> Result<(), Failure>,
) -> u8 {
    let options = match Options::parse(program, machine.arguments()) {
        Ok(options) => options,
        Err(e) => {
            println!("{}: {e}", program.name());
            return 2;
        }
    };
    if options.help {
        // The text would be a hundredth of the image.
        println!("the options are those of `cargo run --bin {} -- --help`", program.name());
        return 0;
    }
    if let Some(option) = options.of_the_model() {
        println!("{}: {option} is for modelled HCAs in the process, not for this machine's", program.name());
        return 2;
    }
    match open(machine, &options).and_then(|(device, at)| {
        run(machine, &options, device.clone(), at)?;
        device.destroy().map_err(|refused| Failure::Close(at, refused.error))
    }) {
        Ok(()) => 0,
        Err(e) => {
            println!("{}: {e}", program.name());
            // The serial port takes all.
            let _ = if options.json { report::json_error(&mut Serial, &e) } else { Ok(()) };
            1
        }
    }
}

fn open(machine: &'static Machine, o: &Options<'static>) -> Result<(Device5, PciAddress), Failure> {
    let function = machine.open(hca(machine, o.device)?).map_err(Failure::Open)?;
    let at = function.address();
    Ok((Mlx5::open(function, config()).map_err(|e| Failure::Driver(at, e))?, at))
}

/// Where the HCA is.
fn hca(machine: &Machine, wanted: Option<&'static str>) -> Result<PciAddress, Failure> {
    let Some(text) = wanted else {
        let mut hcas = machine.functions().filter(|f| ids::find(f.vendor, f.device).is_some());
        return hcas.next().map(|f| f.address).ok_or(Failure::NoHca);
    };
    let at = text.parse().map_err(|_| Failure::NotAnAddress(text))?;
    match machine.functions().find(|f| f.address == at) {
        Some(f) if ids::find(f.vendor, f.device).is_none() => Err(Failure::NotAnHca(at, f.vendor, f.device)),
        // That there is none at all is told by opening it.
        _ => Ok(at),
    }
}

/// Memory for the buffers of a run; nobody needs it back when the machine ends.
fn buffer(machine: &Machine, len: usize) -> Option<RawMemory> {
    let ptr: NonNull<u8> = machine.pool().take(len.max(1), 4096, u64::MAX)?;
    // SAFETY: the memory is never given back, and nobody else has it.
    Some(unsafe { RawMemory::new(NonNull::slice_from_raw_parts(ptr, len)) })
}

/// One end: the server, or the client if the options name a host (by whatever name: the serial line leads to one).
fn one_end<D: Device>(machine: &'static Machine, o: &Options<'_>, device: D, at: PciAddress) -> Result<(), Failure> {
    let failed = |e| Failure::End(at, e);
    let is_client = o.host.is_some();
    port::prepare(&device, o).map_err(|e| Failure::Port(at, e))?;
    let mut end = Endpoint::new(device, o, is_client.into(), o.seed.unwrap_or(SEED), |len| buffer(machine, len))
        .map_err(failed)?;
    let local: Vec<Address, MAX_QP> = end.addresses().collect();
    let line = SerialLine::new(machine);
    let remote = if is_client {
        line.send(&local);
        let remote = line.receive(local.len())?;
        end.connect(o, &remote).map_err(failed)?;
        line.say("done");
        remote
    } else {
        let remote = line.receive(local.len())?;
        end.connect(o, &remote).map_err(failed)?;
        line.send(&local);
        line.await_word("done")?;
        remote
    };
    if !o.json {
        // The serial port takes all.
        let _ = local.iter().try_for_each(|a| report::local(&mut Serial, a));
        let _ = remote.iter().try_for_each(|a| report::remote(&mut Serial, a));
    }
    end.start().map_err(failed)?;
    while end.step().map_err(failed)? != Progress::Done {}
    let outcome = end.outcome();
    // The other end may still wait for its last acknowledgement.
    line.say("end");
    line.await_word("end")?;
    end.close().map_err(failed)?;
    let _ = match (local.first(), remote.first()) {
        (Some(local), Some(remote)) if o.json => outcome.json(&mut Serial, local, remote),
        _ => outcome.lines(&mut Serial),
    };
    Ok(())
}
