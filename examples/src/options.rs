//! The command line: flags and defaults of the ibv_ tools of the same name, and a few of our own.

use crate::endpoint::MAX_QP;
use bareverbs::{Mac, Mtu, PortNum};
use core::{fmt, net::Ipv4Addr};
use getargs::{Argument, Options as Args};

/// The programs of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// ibv_rc_pingpong.
    RcPingpong,
    /// ibv_uc_pingpong.
    UcPingpong,
    /// ibv_ud_pingpong.
    UdPingpong,
    /// ibv_srq_pingpong.
    SrqPingpong,
    /// ibv_devinfo.
    Devinfo,
}

impl Program {
    /// The program's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RcPingpong => "rc_pingpong",
            Self::UcPingpong => "uc_pingpong",
            Self::UdPingpong => "ud_pingpong",
            Self::SrqPingpong => "srq_pingpong",
            Self::Devinfo => "devinfo",
        }
    }

    /// Whether the program has an option.
    pub fn has(self, name: Name) -> bool {
        match name {
            Name::Help | Name::IbDev | Name::IbPort | Name::Link => true,
            Name::Verbose => self == Self::Devinfo,
            Name::NumQp => self == Self::SrqPingpong,
            Name::Multicast => MULTICAST && self == Self::UdPingpong,
            // A datagram is at most what the port's MTU holds, as with ibv_ud_pingpong.
            Name::Mtu => !matches!(self, Self::UdPingpong | Self::Devinfo),
            _ => self != Self::Devinfo,
        }
    }
}

/// The options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the option of the same name")]
pub enum Name {
    Port,
    IbDev,
    IbPort,
    Size,
    Mtu,
    NumQp,
    RxDepth,
    Iters,
    Sl,
    Events,
    GidIdx,
    Chk,
    Verbose,
    Link,
    Pcap,
    Seed,
    Threads,
    Fault,
    Ip,
    Dmac,
    Multicast,
    Json,
    Help,
}

/// The options' letters and long names.
pub const NAMES: &[(Name, Option<char>, &str)] = &[
    (Name::Port, Some('p'), "port"),
    (Name::IbDev, Some('d'), "ib-dev"),
    (Name::IbPort, Some('i'), "ib-port"),
    (Name::Size, Some('s'), "size"),
    (Name::Mtu, Some('m'), "mtu"),
    (Name::NumQp, Some('q'), "num-qp"),
    (Name::RxDepth, Some('r'), "rx-depth"),
    (Name::Iters, Some('n'), "iters"),
    (Name::Sl, Some('l'), "sl"),
    (Name::Events, Some('e'), "events"),
    (Name::GidIdx, Some('g'), "gid-idx"),
    (Name::Chk, Some('c'), "chk"),
    (Name::Verbose, Some('v'), "verbose"),
    (Name::Link, None, "link"),
    (Name::Pcap, None, "pcap"),
    (Name::Seed, None, "seed"),
    (Name::Threads, None, "threads"),
    (Name::Fault, None, "fault"),
    (Name::Ip, None, "ip"),
    (Name::Dmac, None, "dmac"),
    (Name::Multicast, None, "multicast"),
    (Name::Json, None, "json"),
    (Name::Help, Some('h'), "help"),
];

/// Whether `--multicast` is there: its code would be a fiftieth of an image.
pub const MULTICAST: bool = cfg!(feature = "std");

/// The faults of the modelled link.
pub const FAULTS: &[&str] = &["corrupt", "loss", "duplicate", "reorder", "delay"];

/// The link that modelled devices are joined by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// InfiniBand.
    #[default]
    Ib,
    /// RoCE v2 over Ethernet.
    Roce,
}

/// All options.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// What runs.
    pub program: Program,
    /// The other end, for a client; `None` is a server, or both ends where the home plays both.
    pub host: Option<&'a str>,
    /// TCP port of the exchange of addresses.
    pub tcp_port: u16,
    /// Device; `None` for modelled ones.
    pub device: Option<&'a str>,
    /// Port of the device; 0 stands for all of them (devinfo).
    pub ib_port: PortNum,
    /// Bytes a message; `None` for the tool's default, see [`Options::size`].
    pub size: Option<usize>,
    /// Path MTU.
    pub mtu: Mtu,
    /// QPs (srq_pingpong).
    pub num_qp: usize,
    /// Receives posted at a time.
    pub rx_depth: u32,
    /// Exchanges.
    pub iters: u64,
    /// Service level.
    pub sl: u8,
    /// Wait for CQ events instead of polling.
    pub events: bool,
    /// GID index; `None` lets the program choose where one is needed.
    pub gid_index: Option<u8>,
    /// Compare every byte at both ends on every iteration.
    pub check: bool,
    /// More detail (devinfo).
    pub verbose: bool,
    /// The modelled link.
    pub link: Link,
    /// Where frames are written to.
    pub pcap: Option<&'a str>,
    /// Virtual clock, and everything else from this number.
    pub seed: Option<u64>,
    /// Model and ends on threads of their own.
    pub threads: bool,
    /// The result as JSON.
    pub json: bool,
    /// A fault of the modelled fabric, by name.
    pub fault: Option<&'a str>,
    /// Own IPv4 address for a RoCE GID.
    pub ip: Option<Ipv4Addr>,
    /// The other end's Ethernet address.
    pub dmac: Option<Mac>,
    /// To a multicast group that both ends join (ud_pingpong).
    pub multicast: bool,
    /// Only the usage was asked for.
    pub help: bool,
}

/// An option as it was written: `-n` or `--iters`.
pub type Opt<'a> = getargs::Opt<Word<'a>>;

/// A word of the command line. `&str` is one by itself, but takes clusters of letters apart by a way that may panic with
/// text, of which the code would be a fortieth of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a>(&'a str);

impl Argument for Word<'_> {
    type ShortOpt = char;

    fn ends_opts(self) -> bool {
        self.0 == "--"
    }

    fn parse_long_opt(self) -> Option<(Self, Option<Self>)> {
        let option = self.0.strip_prefix("--").filter(|s| !s.is_empty())?;
        match option.split_once('=') {
            Some((option, value)) => Some((Self(option), Some(Self(value)))),
            None => Some((Self(option), None)),
        }
    }

    fn parse_short_cluster(self) -> Option<Self> {
        self.0.strip_prefix('-').filter(|s| !s.is_empty()).map(Self)
    }

    fn consume_short_opt(self) -> (char, Option<Self>) {
        let mut letters = self.0.chars();
        // A cluster is never empty.
        let first = letters.next().unwrap_or('-');
        (first, Some(Self(letters.as_str())).filter(|rest| !rest.0.is_empty()))
    }

    fn consume_short_val(self) -> Self {
        self
    }
}

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// What is wrong with the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageError<'a> {
    /// No such option, or one without its value.
    Option(getargs::Error<Word<'a>>),
    /// No such option.
    Unknown(Opt<'a>),
    /// The value is not one the option takes; with those that it does.
    Value(Opt<'a>, &'a str, &'static str),
    /// An argument too many.
    Extra(&'a str),
}

impl fmt::Display for UsageError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(e) => e.fmt(f),
            Self::Unknown(opt) => write!(f, "no such option: {opt}"),
            Self::Value(opt, v, takes) => write!(f, "{opt} does not take '{v}', but {takes}"),
            Self::Extra(v) => write!(f, "one argument too many: '{v}'"),
        }
    }
}

impl core::error::Error for UsageError<'_> {}

impl<'a> Options<'a> {
    /// The program's defaults.
    pub fn defaults(program: Program) -> Self {
        Self {
            program,
            host: None,
            tcp_port: 18515,
            device: None,
            ib_port: PortNum(if program == Program::Devinfo { 0 } else { 1 }),
            size: None,
            mtu: Mtu::B1024,
            num_qp: if program == Program::SrqPingpong { 16 } else { 1 },
            rx_depth: 500,
            iters: 1000,
            sl: 0,
            events: false,
            gid_index: None,
            check: false,
            verbose: false,
            link: Link::Ib,
            pcap: None,
            seed: None,
            threads: false,
            json: false,
            fault: None,
            ip: None,
            dmac: None,
            multicast: false,
            help: false,
        }
    }

    /// Bytes a message. A datagram's default is what ibv_ud_pingpong's code takes (its help says 2,048), or what a
    /// packet holds if that is less.
    pub fn size(&self, mtu: Mtu) -> usize {
        match (self.size, self.program) {
            (Some(size), _) => size,
            (None, Program::UdPingpong) => mtu.bytes().min(1024) as usize,
            (None, _) => 4096,
        }
    }

    /// Parses the arguments behind the program's name.
    pub fn parse(program: Program, args: impl Iterator<Item = &'a str>) -> Result<Self, UsageError<'a>> {
        let mut o = Self::defaults(program);
        let mut args = Args::new(args.map(Word));
        while let Some(arg) = args.next_arg().map_err(UsageError::Option)? {
            match arg {
                getargs::Arg::Positional(Word(host)) if o.host.is_none() && program != Program::Devinfo => {
                    o.host = Some(host)
                }
                getargs::Arg::Positional(Word(extra)) => return Err(UsageError::Extra(extra)),
                getargs::Arg::Short(c) => o.option(Opt::Short(c), &mut args)?,
                getargs::Arg::Long(l) => o.option(Opt::Long(l), &mut args)?,
            }
        }
        Ok(o)
    }

    fn option(
        &mut self,
        opt: Opt<'a>,
        args: &mut Args<Word<'a>, impl Iterator<Item = Word<'a>>>,
    ) -> Result<(), UsageError<'a>> {
        let named = |(_, short, long): &&(Name, Option<char>, &str)| match opt {
            Opt::Short(c) => *short == Some(c),
            Opt::Long(Word(l)) => *long == l,
        };
        let name = NAMES.iter().find(named).map(|(name, ..)| *name).filter(|name| self.program.has(*name));
        let name = name.ok_or(UsageError::Unknown(opt))?;
        match name {
            Name::Help => self.help = true,
            Name::Verbose => self.verbose = true,
            Name::Events => self.events = true,
            Name::Chk => self.check = true,
            Name::Threads => self.threads = true,
            Name::Json => self.json = true,
            Name::Multicast => self.multicast = true,
            _ => {
                let Word(v) = args.value().map_err(UsageError::Option)?;
                self.value(name, v).map_err(|takes| UsageError::Value(opt, v, takes))?;
            }
        }
        Ok(())
    }

    /// Takes the value of an option, or says what it takes.
    fn value(&mut self, name: Name, v: &'a str) -> Result<(), &'static str> {
        let number = || parse_number(v).ok_or("a number, decimal or hexadecimal behind 0x");
        let up_to = |max: u64| number().ok().filter(|n| *n <= max);
        match name {
            Name::Port => {
                let port = up_to(u16::MAX.into()).filter(|n| *n > 0).ok_or("a TCP port from 1 to 65535")?;
                self.tcp_port = port as u16;
            }
            Name::IbDev => self.device = Some(v),
            Name::IbPort => {
                let port = up_to(u8::MAX.into()).filter(|n| *n > 0).ok_or("a port from 1 to 255")?;
                self.ib_port = PortNum(port as u8);
            }
            Name::Size => self.size = Some(number()? as usize),
            Name::Mtu => {
                let mtu = up_to(u32::MAX.into()).and_then(|n| Mtu::from_bytes(n as u32));
                self.mtu = mtu.ok_or("256, 512, 1024, 2048 or 4096")?;
            }
            Name::NumQp => {
                const { assert!(MAX_QP == 64) };
                self.num_qp = up_to(MAX_QP as u64).filter(|n| *n > 0).ok_or("1 to 64 QPs")? as usize;
            }
            Name::RxDepth => {
                let depth = up_to(u32::MAX.into()).filter(|n| *n > 0).ok_or("a number of receives from 1 on")?;
                self.rx_depth = depth as u32;
            }
            Name::Iters => self.iters = number()?,
            Name::Sl => self.sl = up_to(15).ok_or("a service level from 0 to 15")? as u8,
            Name::GidIdx => self.gid_index = Some(up_to(u8::MAX.into()).ok_or("an index from 0 to 255")? as u8),
            Name::Link => {
                self.link = match v {
                    "ib" => Link::Ib,
                    "roce" => Link::Roce,
                    _ => return Err("ib or roce"),
                };
            }
            Name::Pcap => self.pcap = Some(v),
            Name::Seed => self.seed = Some(number()?),
            Name::Fault if FAULTS.contains(&v) => self.fault = Some(v),
            Name::Fault => return Err("corrupt, loss, duplicate, reorder or delay"),
            Name::Ip => self.ip = Some(octets(v, '.', 10).map(Ipv4Addr::from).ok_or("an IPv4 address, as 10.0.0.1")?),
            Name::Dmac => {
                self.dmac = Some(octets(v, ':', 16).map(Mac).ok_or("an Ethernet address, as 02:00:c9:00:00:01")?)
            }
            Name::Help | Name::Verbose | Name::Events | Name::Chk | Name::Threads | Name::Json | Name::Multicast => {
                return Err("nothing");
            }
        }
        Ok(())
    }

    /// An option of modelled HCAs that was given, by its name: no other home has it.
    pub fn of_the_model(&self) -> Option<&'static str> {
        let given = [
            (self.pcap.is_some(), "--pcap"),
            (self.fault.is_some(), "--fault"),
            (self.threads, "--threads"),
            (self.link == Link::Roce, "--link"),
        ];
        given.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }
}

/// Decimal, or hexadecimal behind `0x`, as strtol takes it.
fn parse_number(v: &str) -> Option<u64> {
    let (digits, radix) = v.strip_prefix("0x").map_or((v, 10), |hex| (hex, 16));
    u64::from_str_radix(digits, radix).ok()
}

/// As many numbers of a byte as there are to be, with something between.
fn octets<const N: usize>(v: &str, between: char, radix: u32) -> Option<[u8; N]> {
    let mut octets = [0; N];
    let mut parts = v.split(between);
    for octet in &mut octets {
        let digits = parts.next().filter(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))?;
        *octet = u64::from_str_radix(digits, radix).ok()?.try_into().ok()?;
    }
    parts.next().is_none().then_some(octets)
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    fn parse(line: &'static str) -> Result<Options<'static>, UsageError<'static>> {
        Options::parse(Program::RcPingpong, line.split_whitespace())
    }

    #[test]
    fn flags_are_those_of_ibv_rc_pingpong() {
        let o = parse("-n 7 -s 0x10 --mtu=4096 -r5 -c -e -g 3 -l 2 -p 99 peer --link roce --seed 5").unwrap();
        assert_eq!((o.iters, o.size, o.mtu, o.rx_depth), (7, Some(16), Mtu::B4096, 5));
        assert_eq!((o.check, o.events, o.gid_index, o.sl, o.tcp_port), (true, true, Some(3), 2, 99));
        assert_eq!((o.host, o.link, o.seed), (Some("peer"), Link::Roce, Some(5)));
        let o = parse("--ip 10.0.0.255 --dmac=02:00:c9:0:0:1f").unwrap();
        assert_eq!((o.ip, o.dmac), (Some(Ipv4Addr::new(10, 0, 0, 255)), Some(Mac([2, 0, 0xc9, 0, 0, 0x1f]))));
    }

    #[test]
    fn bad_values_are_told_with_the_good_ones() {
        for (bad, takes) in [
            ("-m 1000", "256, 512, 1024, 2048 or 4096"),
            ("-n x", "a number"),
            ("-l 16", "0 to 15"),
            ("-r 0", "from 1 on"),
            ("-p 0", "from 1 to 65535"),
            ("-p 65536", "from 1 to 65535"),
            ("-i 0", "from 1 to 255"),
            ("-g 256", "from 0 to 255"),
            ("--link x", "ib or roce"),
            ("--fault x", "corrupt, loss, duplicate, reorder or delay"),
            ("--ip 10.0.0", "an IPv4 address"),
            ("--ip 10.0.0.0.1", "an IPv4 address"),
            ("--ip 10.0.+0.1", "an IPv4 address"),
            ("--ip 10.0.0.a", "an IPv4 address"),
            ("--dmac 1:2", "an Ethernet address"),
        ] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.starts_with(bad.split(' ').next().unwrap()) && error.contains(takes), "{bad}: {error}");
        }
        for bad in ["a b", "--what", "-n", "-x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_of_other_programs_are_refused() {
        for (program, bad) in [
            (Program::RcPingpong, "-q 2"),
            (Program::RcPingpong, "-v"),
            (Program::RcPingpong, "--multicast"),
            (Program::UdPingpong, "-m 1024"),
            (Program::Devinfo, "--json"),
            (Program::Devinfo, "-n 1"),
            (Program::Devinfo, "host"),
        ] {
            assert!(Options::parse(program, bad.split(' ')).is_err(), "{} {bad}", program.name());
        }
        assert_eq!(Options::parse(Program::Devinfo, "-v -i 2".split(' ')).unwrap().ib_port, PortNum(2));
        assert_eq!(Options::parse(Program::SrqPingpong, "-q 64".split(' ')).unwrap().num_qp, 64);
        assert!(Options::parse(Program::SrqPingpong, "-q 65".split(' ')).is_err());
    }
}
