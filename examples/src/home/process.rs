//! A Linux process: the command line, the output, the exit status.

use crate::options::{Options, Program, USAGE};
use std::{env, fmt, io::Write, process::ExitCode};

/// Standard output for `fmt::Write`; a closed pipe ends the program as the other tools do.
pub(crate) struct Stdout;

impl fmt::Write for Stdout {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        std::io::stdout().write_all(s.as_bytes()).map_err(|_| fmt::Error)
    }
}

/// Any error, to be printed.
pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Runs a program with the arguments of the process. Exit status 0, 1 if it failed, 2 if it was called wrong.
pub fn main(program: Program) -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let options = match Options::parse(program, args.iter().map(String::as_str)) {
        Ok(options) => options,
        Err(e) => {
            eprintln!("{}: {e}\n{USAGE}", program.name());
            return ExitCode::from(2);
        }
    };
    if options.help {
        print!("{} [options] [host]\n{USAGE}", program.name());
        return ExitCode::SUCCESS;
    }
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{}: {e}", program.name());
            ExitCode::FAILURE
        }
    }
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
