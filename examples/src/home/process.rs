//! A Linux process: the command line, the output, the exit status.

use super::usage::usage;
use crate::{
    options::{Options, Program},
    report,
};
use std::{
    env, fmt,
    io::{self, ErrorKind, Write},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

/// Standard output for `fmt::Write`.
pub(crate) struct Stdout;

/// Whether nobody reads standard output any more.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// The status that a shell gives a program which SIGPIPE ended: what happens to others when their reader goes.
const SIGPIPE: u8 = 128 + 13;

impl fmt::Write for Stdout {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        io::stdout().write_all(s.as_bytes()).map_err(|e| {
            CLOSED.fetch_or(e.kind() == ErrorKind::BrokenPipe, Ordering::Relaxed);
            fmt::Error
        })
    }
}

/// Prints a text and ends with a status; without a word if nobody reads it.
pub(crate) fn end(text: &str, status: ExitCode) -> ExitCode {
    match fmt::Write::write_str(&mut Stdout, text) {
        Ok(()) => status,
        Err(fmt::Error) if CLOSED.load(Ordering::Relaxed) => ExitCode::from(SIGPIPE),
        Err(fmt::Error) => ExitCode::FAILURE,
    }
}

/// Any error, to be printed.
pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Runs a program with the arguments of the process. Exit status 0, 1 if it failed, 2 if it was called wrong.
pub fn main(program: Program) -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let name = program.name();
    let options = match Options::parse(program, args.iter().map(String::as_str)) {
        Ok(options) => options,
        Err(e) => {
            eprintln!("{name}: {e}\n`{name} --help` lists the options");
            return failed(args.iter().any(|a| a == "--json"), &e, 2);
        }
    };
    if options.help {
        return end(&usage(program), ExitCode::SUCCESS);
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if CLOSED.load(Ordering::Relaxed) => ExitCode::from(SIGPIPE),
        Err(e) => {
            eprintln!("{name}: {e}");
            failed(options.json, &e, 1)
        }
    }
}

/// Ends with a status after an error was told; whoever reads JSON is told in JSON too.
fn failed(json: bool, error: &dyn fmt::Display, status: u8) -> ExitCode {
    // Where standard output is gone, standard error and the status have told.
    let _ = if json { report::json_error(&mut Stdout, error) } else { Ok(()) };
    ExitCode::from(status)
}

fn run(o: &Options<'_>) -> Result<(), Failed> {
    if let (Some(host), None | Some("loopback")) = (o.host, o.device) {
        return Err(format!("{host}: without a card (-d BDF) both ends run here, and there is no host to call").into());
    }
    match o.device {
        #[cfg(feature = "harness")]
        None => super::modelled::run(o),
        #[cfg(feature = "harness")]
        Some("loopback") => super::loopback::run(o),
        #[cfg(all(feature = "vfio", target_os = "linux"))]
        Some(bdf) => super::vfio::run(o, bdf),
        #[cfg(not(all(feature = "vfio", target_os = "linux")))]
        Some(bdf) => Err(format!(
            "{bdf}: this build has no VFIO backend; leave -d out for two modelled ConnectX HCAs, or give -d loopback"
        )
        .into()),
        #[cfg(not(feature = "harness"))]
        None => Err("this build has no modelled HCAs; name a device with -d".into()),
    }
}
