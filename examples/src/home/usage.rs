//! What `--help` prints.

use crate::options::{FAULTS, NAMES, Program};

/// Behind an option's long name: what its value is called, and what it does.
fn text(program: Program, long: &str) -> (&'static str, String) {
    let ud = program == Program::UdPingpong;
    let (value, text) = match long {
        "port" => ("PORT", "TCP port of the exchange of addresses (default 18515)"),
        "ib-dev" => ("DEV", "PCI address of a card on vfio-pci, or 'loopback' (default: two modelled ConnectX HCAs)"),
        "ib-port" if program == Program::Devinfo => ("PORT", "port of the device (default: all)"),
        "ib-port" => ("PORT", "port of the device (default 1)"),
        "size" if ud => ("SIZE", "bytes a message, at most the MTU (default 1024)"),
        "size" => ("SIZE", "bytes a message (default 4096)"),
        "mtu" => ("SIZE", "path MTU (default 1024)"),
        "num-qp" => ("NUM", "QPs (default 16)"),
        "rx-depth" => ("DEP", "receives posted at a time (default 500)"),
        "iters" => ("ITERS", "exchanges (default 1000)"),
        "sl" => ("SL", "service level (default 0)"),
        "events" => ("", "wait for CQ events (default: poll)"),
        "gid-idx" => ("INDEX", "local GID index (default: none on InfiniBand, chosen on Ethernet)"),
        "chk" => ("", "compare every byte at both ends on every iteration"),
        "verbose" => ("", "limits and tables too"),
        "link" => ("ib|roce", "link between the modelled HCAs (default ib)"),
        "pcap" => ("FILE", "write the frames on the modelled link to FILE"),
        "seed" => ("N", "virtual clock, and everything else from N"),
        "threads" => ("", "model and ends on threads of their own"),
        "fault" => return ("NAME", format!("a fault of the modelled link: {}", FAULTS.join(", "))),
        "ip" => ("ADDR", "own IPv4 address for a RoCE v2 GID"),
        "dmac" => ("MAC", "Ethernet address of the other end"),
        "json" => ("", "the result as JSON"),
        "help" => ("", "this text"),
        _ => ("", ""),
    };
    (value, text.into())
}

/// The usage of a program: only its own options.
pub(crate) fn usage(program: Program) -> String {
    let host = if program == Program::Devinfo { "" } else { " [host]" };
    let mut usage = format!("usage: {} [options]{host}\n", program.name());
    for (short, long) in NAMES.iter().filter(|(_, long)| program.has(long)) {
        let short = short.map_or("    ".into(), |c| format!("-{c}, "));
        let (value, text) = text(program, long);
        let equals = if value.is_empty() { "" } else { "=" };
        usage += &format!("  {short}{:<18} {text}\n", format!("--{long}{equals}{value}"));
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Program; 5] =
        [Program::RcPingpong, Program::UcPingpong, Program::UdPingpong, Program::SrqPingpong, Program::Devinfo];

    #[test]
    fn every_option_of_a_program_is_told_and_no_other() {
        for program in ALL {
            let usage = usage(program);
            for (_, long) in NAMES {
                let told = usage.lines().find(|line| line.split([' ', '=']).any(|word| word == format!("--{long}")));
                assert_eq!(told.is_some(), program.has(long), "{} --{long}", program.name());
                assert!(told.is_none_or(|line| line.starts_with("  ") && line.trim_end().len() > 27), "{told:?}");
            }
        }
    }

    #[test]
    fn the_usage_of_devinfo() {
        let expected = "usage: devinfo [options]
  -d, --ib-dev=DEV       PCI address of a card on vfio-pci, or 'loopback' (default: two modelled ConnectX HCAs)
  -i, --ib-port=PORT     port of the device (default: all)
  -v, --verbose          limits and tables too
      --link=ib|roce     link between the modelled HCAs (default ib)
  -h, --help             this text
";
        assert_eq!(usage(Program::Devinfo), expected);
    }
}
