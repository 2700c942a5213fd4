//! The command line: flags and defaults of the ibv_ tools of the same name, and a few of our own.

use bareverbs::{Mac, Mtu, PortNum};
use core::{fmt, net::Ipv4Addr};
use getargs::{Opt, Options as Args};

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
}

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
    /// Port of the device.
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
    /// Only the usage was asked for.
    pub help: bool,
}

/// What is wrong with the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageError<'a> {
    /// No such option, or one without its value.
    Option(getargs::Error<&'a str>),
    /// No such option.
    Unknown(Opt<&'a str>),
    /// The value is not one the option takes.
    Value(Opt<&'a str>, &'a str),
    /// More than one host.
    Extra(&'a str),
}

impl fmt::Display for UsageError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(e) => e.fmt(f),
            Self::Unknown(opt) => write!(f, "no such option: {opt}"),
            Self::Value(opt, v) => write!(f, "{opt} does not take '{v}'"),
            Self::Extra(v) => write!(f, "one host at most, not also '{v}'"),
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
            ib_port: PortNum(1),
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
        let mut args = Args::new(args);
        while let Some(arg) = args.next_arg().map_err(UsageError::Option)? {
            match arg {
                getargs::Arg::Positional(host) if o.host.is_none() && program != Program::Devinfo => {
                    o.host = Some(host)
                }
                getargs::Arg::Positional(extra) => return Err(UsageError::Extra(extra)),
                getargs::Arg::Short(c) => o.option(Opt::Short(c), &mut args)?,
                getargs::Arg::Long(l) => o.option(Opt::Long(l), &mut args)?,
            }
        }
        Ok(o)
    }

    fn option(
        &mut self,
        opt: Opt<&'a str>,
        args: &mut Args<&'a str, impl Iterator<Item = &'a str>>,
    ) -> Result<(), UsageError<'a>> {
        use Opt::{Long, Short};
        let mut value = || args.value().map_err(UsageError::Option);
        let number = |v: &'a str| parse_number(v).ok_or(UsageError::Value(opt, v));
        match opt {
            Short('h') | Long("help") => self.help = true,
            Short('v') | Long("verbose") => self.verbose = true,
            Short('e') | Long("events") => self.events = true,
            Short('c') | Long("chk") => self.check = true,
            Long("threads") => self.threads = true,
            Long("json") => self.json = true,
            Short('p') | Long("port") => {
                let v = value()?;
                self.tcp_port = v.parse().map_err(|_| UsageError::Value(opt, v))?;
            }
            Short('d') | Long("ib-dev") | Long("device") => self.device = Some(value()?),
            Short('i') | Long("ib-port") => {
                let v = value()?;
                self.ib_port = PortNum(v.parse().map_err(|_| UsageError::Value(opt, v))?);
            }
            Short('s') | Long("size") => self.size = Some(number(value()?)? as usize),
            Short('m') | Long("mtu") => {
                let v = value()?;
                self.mtu = number(v)
                    .ok()
                    .and_then(|n| Mtu::from_bytes(u32::try_from(n).ok()?))
                    .ok_or(UsageError::Value(opt, v))?;
            }
            Short('q') | Long("num-qp") if self.program == Program::SrqPingpong => {
                let v = value()?;
                self.num_qp = number(v)? as usize;
                if self.num_qp == 0 || self.num_qp > crate::endpoint::MAX_QP {
                    return Err(UsageError::Value(opt, v));
                }
            }
            Short('r') | Long("rx-depth") => {
                let v = value()?;
                self.rx_depth = v.parse().ok().filter(|n| *n > 0).ok_or(UsageError::Value(opt, v))?;
            }
            Short('n') | Long("iters") => self.iters = number(value()?)?,
            Short('l') | Long("sl") => {
                let v = value()?;
                self.sl = v.parse().ok().filter(|n| *n < 16).ok_or(UsageError::Value(opt, v))?;
            }
            Short('g') | Long("gid-idx") => {
                let v = value()?;
                self.gid_index = Some(v.parse().map_err(|_| UsageError::Value(opt, v))?);
            }
            Long("link") => {
                self.link = match value()? {
                    "ib" => Link::Ib,
                    "roce" => Link::Roce,
                    v => return Err(UsageError::Value(opt, v)),
                };
            }
            Long("pcap") => self.pcap = Some(value()?),
            Long("seed") => self.seed = Some(number(value()?)?),
            Long("fault") => self.fault = Some(value()?),
            Long("ip") => {
                let v = value()?;
                self.ip = Some(v.parse().map_err(|_| UsageError::Value(opt, v))?);
            }
            Long("dmac") => {
                let v = value()?;
                self.dmac = Some(parse_mac(v).ok_or(UsageError::Value(opt, v))?);
            }
            _ => return Err(UsageError::Unknown(opt)),
        }
        Ok(())
    }
}

/// Decimal, or hexadecimal behind `0x`, as strtol takes it.
fn parse_number(v: &str) -> Option<u64> {
    match v.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => v.parse().ok(),
    }
}

fn parse_mac(v: &str) -> Option<Mac> {
    let mut mac = [0; 6];
    let mut parts = v.split(':');
    for b in &mut mac {
        *b = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(Mac(mac))
}

/// What `--help` prints behind the program's name.
pub const USAGE: &str = "\
  -p, --port=PORT      TCP port of the exchange of addresses (default 18515)
  -d, --ib-dev=DEV     PCI address of a card on vfio-pci, or 'loopback' (default: two modelled ConnectX HCAs)
  -i, --ib-port=PORT   port of the device (default 1)
  -s, --size=SIZE      bytes a message (default 4096; ud 1024, at most the MTU)
  -m, --mtu=SIZE       path MTU (default 1024)
  -q, --num-qp=NUM     QPs (srq_pingpong; default 16)
  -r, --rx-depth=DEP   receives posted at a time (default 500)
  -n, --iters=ITERS    exchanges (default 1000)
  -l, --sl=SL          service level (default 0)
  -e, --events         wait for CQ events (default: poll)
  -g, --gid-idx=INDEX  local GID index (default: none on InfiniBand, chosen on Ethernet)
  -c, --chk            compare every byte at both ends on every iteration
  -v, --verbose        more detail (devinfo)
      --link=ib|roce   link between the modelled HCAs (default ib)
      --pcap=FILE      write the frames on the link to FILE
      --seed=N         virtual clock, and everything else from N
      --threads        model and ends on threads of their own
      --fault=NAME     a fault of the modelled link: corrupt, loss, duplicate, reorder, delay
      --ip=ADDR        own IPv4 address for a RoCE v2 GID
      --dmac=MAC       Ethernet address of the other end
      --json           the result as JSON
  -h, --help           this text
";

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
    }

    #[test]
    fn bad_values_are_named() {
        for bad in ["-m 1000", "-n x", "-l 16", "-r 0", "-q 0", "--link x", "--dmac 1:2", "a b", "--what", "-n"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
