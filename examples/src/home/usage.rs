//! What `--help` prints.

use crate::options::{FAULTS, NAMES, Name, Program};

/// Behind an option's long name: what its value is called, and what it does.
fn text(program: Program, name: Name) -> (&'static str, String) {
    let ud = program == Program::UdPingpong;
    let (value, text) = match name {
        Name::Port => ("PORT", "TCP port of the exchange of addresses (default 18515)"),
        Name::IbDev => {
            ("DEV", "PCI address of a card on vfio-pci, or 'loopback' (default: two modelled ConnectX HCAs)")
        }
        Name::IbPort if program == Program::Devinfo => ("PORT", "port of the device (default: all)"),
        Name::IbPort => ("PORT", "port of the device (default 1)"),
        Name::Size if ud => ("SIZE", "bytes a message, at most the MTU (default 1024)"),
        Name::Size => ("SIZE", "bytes a message (default 4096)"),
        Name::Mtu => ("SIZE", "path MTU (default 1024)"),
        Name::NumQp => ("NUM", "QPs (default 16)"),
        Name::RxDepth => ("DEP", "receives posted at a time (default 500)"),
        Name::Iters => ("ITERS", "exchanges (default 1000)"),
        Name::Sl => ("SL", "service level (default 0)"),
        Name::Events => ("", "wait for CQ events (default: poll)"),
        Name::GidIdx => ("INDEX", "local GID index (default: none on InfiniBand, chosen on Ethernet)"),
        Name::Chk => ("", "compare every byte at both ends on every iteration"),
        Name::Verbose => ("", "limits and tables too"),
        Name::Link => ("ib|roce", "link between the modelled HCAs (default ib)"),
        Name::Pcap => ("FILE", "write the frames on the modelled link to FILE"),
        Name::Seed => ("N", "virtual clock, and everything else from N"),
        Name::Threads => ("", "model and ends on threads of their own"),
        Name::Fault => {
            return (
                "NAME",
                format!(
                    "a fault of the modelled link: {} (corrupt: one message, behind the checksums, for -c)",
                    FAULTS.join(", ")
                ),
            );
        }
        Name::Ip => ("ADDR", "own IPv4 address for a RoCE v2 GID"),
        Name::Dmac => ("MAC", "Ethernet address of the other end"),
        Name::Multicast => ("", "to a multicast group that both ends join, past the subnet administrator"),
        Name::Json => ("", "the result as JSON, an error as {\"error\":...}"),
        Name::Help => ("", "this text"),
    };
    (value, text.into())
}

/// The usage of a program: only its own options.
pub(crate) fn usage(program: Program) -> String {
    let host = if program == Program::Devinfo { "" } else { " [host]" };
    let mut usage = format!("usage: {} [options]{host}\n", program.name());
    for (name, short, long) in NAMES.iter().filter(|(name, ..)| program.has(*name)) {
        let short = short.map_or("    ".into(), |c| format!("-{c}, "));
        let (value, text) = text(program, *name);
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
            for (name, _, long) in NAMES {
                let told = usage.lines().find(|line| line.split([' ', '=']).any(|word| word == format!("--{long}")));
                assert_eq!(told.is_some(), program.has(*name), "{} --{long}", program.name());
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
