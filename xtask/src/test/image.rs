//! The groups that boot images: programs that are machines of their own.

use super::{Bench, Tally};
use crate::image::{self, Build};
use crate::linux::{self, Link};
use crate::mixed;
use crate::qemu::{self, End, Firmware, Options, Outcome, Version};
use anyhow::{Context, Result, anyhow, ensure};
use std::fs;
use std::time::Instant;

/// The largest a ping-pong with driver and HAL may be, without symbols.
const LARGEST: u64 = 160_000;

/// Some memory lies above 4 GiB, and so do wide BARs where firmware chooses.
const LARGE: u32 = 5 * 1024;

/// QEMU's device that copies memory, and one with plain memory in a BAR of 16 GiB.
const COPIES: &str = "edu";
const WIDE: &str = "ivshmem-plain,memdev=wide";
const WIDE_MEMORY: [&str; 2] = ["-object", "memory-backend-ram,id=wide,size=16G"];

/// Lints and sizes: nothing is booted.
pub fn build(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    for package in bench.workspace.packages.iter().filter(|p| !p.images.is_empty()) {
        let mut cargo = bench.workspace.cargo();
        cargo.args(["clippy", "--no-deps", "-p", &package.name, "--lib", "--no-default-features"]);
        cargo.args(["--features", "image", "--profile", "image"]);
        cargo.args(package.images.iter().flat_map(|name| ["--bin", name])).args(["--", "-D", "warnings"]);
        tally.count(bench.shell.check(&mut cargo).map(drop));
    }
    for name in ["img_rc_pingpong", "img_ud_pingpong", "img_srq_pingpong"] {
        let image = image::build(bench.workspace, &bench.shell, name, Build { strip: true, ..Build::default() })?;
        let size = fs::metadata(&image).with_context(|| image.display().to_string())?.len();
        tally.notes.push(format!("{name}: {size} bytes without symbols"));
        tally.count(if size <= LARGEST {
            Ok(())
        } else {
            Err(anyhow!("{name} has {size} bytes, {LARGEST} are allowed"))
        });
    }
    Ok(tally)
}

fn run(bench: &Bench, options: &Options) -> Result<Outcome> {
    qemu::run(bench.workspace, &bench.shell, options, |_, _| {})
}

/// The machine and the HAL's promises, on old and new QEMU, with firmware that does all of PCI and firmware that does
/// little, with little memory and with some above 4 GiB, on the root bus and behind a bridge.
pub fn selftest(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    for version in [Version::Current, Version::Old] {
        for firmware in [Firmware::Seabios, Firmware::Qboot] {
            for (memory, bridge, device) in [
                (256, false, COPIES),
                (256, true, COPIES),
                (LARGE, false, COPIES),
                (256, false, WIDE),
                (LARGE, true, WIDE),
            ] {
                let options = Options {
                    no_hca: true,
                    version,
                    firmware,
                    memory,
                    bridge,
                    devices: vec![device.into()],
                    qemu_arguments: if device == WIDE { WIDE_MEMORY.map(String::from).into() } else { vec![] },
                    ..Options::of(&["img_selftest"])
                };
                let outcome = self_tested(bench, &options);
                tally
                    .count(outcome.with_context(|| format!("{version:?} {firmware:?} {memory} MiB {bridge} {device}")));
            }
        }
    }
    let debug = Options { no_hca: true, debug: true, devices: vec![COPIES.into()], ..Options::of(&["img_selftest"]) };
    tally.count(self_tested(bench, &debug).context("debug"));
    // Where ACPI tells of no configuration space and of another timer.
    for arguments in [["-machine", "pc"], ["-machine", "hpet=off"]] {
        let qemu_arguments = arguments.map(String::from).into();
        let options = Options { no_hca: true, qemu_arguments, ..Options::of(&["img_selftest"]) };
        let conforming = arguments[1] != "pc";
        tally.count(booted(bench, &options, conforming).context(arguments[1]));
    }
    Ok(tally)
}

/// Boots the self-test and looks for what it has to have seen.
fn self_tested(bench: &Bench, options: &Options) -> Result<()> {
    let outcome = run(bench, options)?;
    outcome.check()?;
    let text = outcome.said();
    let has = |what: &str| {
        ensure!(text.contains(what), "{what:?} was expected:\n{text}");
        Ok(())
    };
    has("1/3 = 0.333333")?;
    has("ok      a reset leaves BARs and silence")?;
    has("\n0 broken\n")?;
    if options.memory == LARGE {
        has("RAM: 0x100000000 to")?;
    }
    let copies = options.devices.iter().any(|device| device == COPIES);
    has(if copies {
        "ok      a device without bus mastering is silent"
    } else {
        "ok      both windows show the same memory"
    })?;
    if options.bridge {
        has(&format!("PCI: 0000:01:00.0 {}", if copies { "1234:11e8" } else { "1af4:1110" }))?;
    }
    Ok(())
}

/// A machine that may have no function to try the HAL on.
fn booted(bench: &Bench, options: &Options, conforming: bool) -> Result<()> {
    let outcome = run(bench, options)?;
    outcome.check()?;
    let text = outcome.said();
    ensure!(text.contains("from PmTimer") && text.contains("PCI: 0000:00:00.0 8086:"), "{text}");
    ensure!(!conforming || text.contains("ok      BARs end where they end"), "{text}");
    Ok(())
}

/// Each way to end, and what the image says of it. Vectors as the Intel SDM numbers them.
const ENDS: &[(&str, End, &str)] = &[
    ("status-7", End::Status(7), ""),
    ("panic", End::Panic, "on request"),
    ("divide", End::Exception(0), "exception: divide error"),
    ("breakpoint", End::Exception(3), "exception: breakpoint"),
    ("invalid-opcode", End::Exception(6), "exception: invalid opcode"),
    ("protection", End::Exception(13), "exception: general protection"),
    ("null", End::Exception(14), "address 0x8"),
    ("wild", End::Exception(14), "address 0x700000000000"),
    ("write-code", End::Exception(14), "error 0x3"),
    ("run-data", End::Exception(14), "error 0x11"),
    ("stack", End::Exception(14), "error 0x2"),
    ("no-such-end", End::Status(2), "no end is called"),
];

/// Ends arrive as what they are; a panic leaves no device writing; who does not end is stopped.
pub fn ends(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    for version in [Version::Current, Version::Old] {
        for (argument, expected, says) in ENDS {
            let options = ending(version, argument);
            tally.count(run(bench, &options).and_then(|outcome| {
                let right = outcome.ends == [*expected] && outcome.output[0].contains(says);
                ensure!(
                    right,
                    "{argument}: {expected} and {says:?} were expected: {:?}\n{}",
                    outcome.ends,
                    outcome.said()
                );
                Ok(())
            }));
        }
        tally.count(silenced(bench, version));
    }
    let hang = Options { limit: 10, ..ending(Version::Current, "hang") };
    tally.count(match run(bench, &hang) {
        Err(error) if format!("{error:#}").contains("no end after 10 s") => Ok(()),
        Err(error) => Err(error),
        Ok(outcome) => Err(anyhow!("an image that does not end ended with {:?}", outcome.ends)),
    });
    Ok(tally)
}

fn ending(version: Version, argument: &str) -> Options {
    Options { no_hca: true, version, arguments: vec![argument.into()], ..Options::of(&["img_selftest"]) }
}

/// QEMU tells each write to configuration space: the panic has to come after bus mastering went off again.
fn silenced(bench: &Bench, version: Version) -> Result<()> {
    const MASTER: u32 = 1 << 2;
    let options = Options {
        qemu_arguments: ["-trace", "pci_cfg_write"].map(String::from).into(),
        devices: vec![COPIES.into()],
        ..ending(version, "silence")
    };
    let outcome = run(bench, &options)?;
    ensure!(outcome.ends == [End::Panic], "{:?}\n{}", outcome.ends, outcome.said());
    let write = |line: &str| {
        let (_, value) = line.split_once("pci_cfg_write edu ")?.1.split_once("@0x4 <- 0x")?;
        u32::from_str_radix(value.trim(), 16).ok()
    };
    let commands: Vec<u32> = outcome.output[0].lines().filter_map(write).collect();
    ensure!(commands.iter().any(|c| c & MASTER != 0), "bus mastering was never on: {commands:x?}\n{}", outcome.said());
    ensure!(commands.last().is_some_and(|c| c & MASTER == 0), "bus mastering stayed on: {commands:x?}");
    Ok(())
}

/// Where instructions are counted instead of time, a run is a run.
pub fn icount(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    for version in [Version::Current, Version::Old] {
        let options = Options { no_hca: true, version, icount: true, ..Options::of(&["img_selftest"]) };
        let once = || -> Result<String> {
            let outcome = run(bench, &options)?;
            outcome.check()?;
            Ok(outcome.said())
        };
        let first = once()?;
        // A tick of the PM timer is 279 ns, of the 10 ms that are measured.
        let is_counting = ["clock: 999 MHz", "clock: 1000 MHz"].iter().any(|line| first.contains(line));
        ensure!(is_counting, "an instruction a nanosecond was expected:\n{first}");
        for _ in 0..2 {
            let next = once()?;
            tally.count(if next == first { Ok(()) } else { Err(anyhow!("{version:?}:\n{first}\n{next}")) });
        }
    }
    Ok(tally)
}

/// Program, its arguments, link, firmware, memory and bridge.
type PingPong = (&'static str, &'static str, Link, Firmware, u32, bool);

const PINGPONGS: &[PingPong] = &[
    ("img_rc_pingpong", "-c -n 200", Link::Ib, Firmware::Seabios, 256, false),
    ("img_rc_pingpong", "-c -n 200", Link::Roce, Firmware::Seabios, LARGE, true),
    ("img_rc_pingpong", "-c -n 200 -e", Link::Ib, Firmware::Qboot, LARGE, false),
    ("img_rc_pingpong", "-c -n 200 -s 65536", Link::Roce, Firmware::Qboot, 256, true),
    ("img_uc_pingpong", "-c -n 200", Link::Ib, Firmware::Qboot, 256, false),
    ("img_ud_pingpong", "-c -n 200 -s 1024", Link::Ib, Firmware::Seabios, LARGE, false),
    ("img_ud_pingpong", "-c -n 200 -s 1024", Link::Roce, Firmware::Qboot, 256, true),
    ("img_srq_pingpong", "-c -n 200", Link::Ib, Firmware::Seabios, 256, true),
    ("img_srq_pingpong", "-c -n 200", Link::Roce, Firmware::Qboot, LARGE, false),
];

/// Two images against each other over modelled HCAs, comparing every byte.
pub fn ping_pong(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    for debug in [false, true] {
        // Debug builds once each; the rest is the same code.
        let rows = PINGPONGS.iter().filter(|row| !debug || (row.4, row.5) == (256, false));
        for (name, arguments, link, firmware, memory, bridge) in rows {
            let options = Options {
                debug,
                link: *link,
                firmware: *firmware,
                memory: *memory,
                bridge: *bridge,
                arguments: arguments.split(' ').map(String::from).collect(),
                ..Options::of(&[name, name])
            };
            tally.count(played(bench, &options).with_context(|| {
                format!("{name} {arguments} {link:?} {firmware:?} {memory} MiB bridge {bridge} debug {debug}")
            }));
        }
    }
    tally.count(mismatch(bench));
    Ok(tally)
}

fn played(bench: &Bench, options: &Options) -> Result<()> {
    let outcome = run(bench, options)?;
    outcome.check()?;
    for text in &outcome.output {
        let lines = ["  local address:  LID", "  remote address: LID", "200 iters in "];
        ensure!(lines.iter().all(|line| text.contains(line)), "{}", outcome.said());
    }
    Ok(())
}

/// Ends that compare find out that they do not say the same: the check can fail.
fn mismatch(bench: &Bench) -> Result<()> {
    let arguments = ["-c", "-n", "10", "--seed", "5"].map(String::from).into();
    // The later option counts: the second image fills and compares by another number.
    let second = ["--seed", "6"].map(String::from).into();
    let options = Options { arguments, second, ..Options::of(&["img_rc_pingpong", "img_rc_pingpong"]) };
    let outcome = run(bench, &options)?;
    let found = outcome.output.iter().any(|text| text.contains("invalid data in message 0"));
    ensure!(found && outcome.check().is_err(), "other bytes were not found out\n{}", outcome.said());
    Ok(())
}

/// The image's program, the command in the guest, addresses of the image, addresses that the command sends.
type Mixed = (&'static str, &'static str, u32, u32);

const MIXED: &[Mixed] = &[
    ("img_rc_pingpong", "ibv_rc_pingpong", 1, 1),
    ("img_uc_pingpong", "ibv_uc_pingpong", 1, 1),
    ("img_ud_pingpong", "ibv_ud_pingpong -s 1024", 1, 1),
    ("img_srq_pingpong", "ibv_srq_pingpong", 16, 256),
];

/// What the guest's command is.
const ROLES: [&str; 2] = ["server", "client"];

/// What the ping-pongs of the guest play on.
struct Peer {
    name: &'static str,
    /// Its name, as rdma-core has it.
    device: &'static str,
    /// Sets `$NETDEV`, on Ethernet, to its network interface.
    prepare: &'static str,
    options: linux::Options,
}

impl Peer {
    /// Linux's driver on another modelled card. The images have the model's second one.
    fn card(link: Link) -> Self {
        let prepare = "IMAGE=1; NETDEV=$(ls /sys/class/infiniband/mlx5_0/device/net 2>/dev/null)";
        let name = if link == Link::Ib { "mlx5_ib over InfiniBand" } else { "mlx5_ib over RoCE" };
        Self { name, device: "mlx5_0", prepare, options: linux::Options { link, ..linux::Options::default() } }
    }

    /// Linux's RoCE in software, on a network interface that a wire joins to the images' card.
    fn rxe() -> Self {
        let prepare = "IMAGE=0; NETDEV=$(grep -l 52:54:00:00:03:02 /sys/class/net/*/address | cut -d/ -f5)
            rdma link add rxe0 type rxe netdev $NETDEV";
        let modules = Some("virtio_net rdma_rxe ib_uverbs".into());
        let options = linux::Options { link: Link::Roce, wire: true, modules, ..linux::Options::default() };
        Self { name: "rdma_rxe", device: "rxe0", prepare, options }
    }
}

/// Waits for the port. On Ethernet, finds the RoCE v2 GID of the MAC, and makes the image a permanent neighbour: nobody
/// answers for it. Its card's MAC ends with its number in the model. Nor would anybody object to the guest's address.
const PREPARE: &str = r#"
if [ -n "$NETDEV" ]; then
  echo 0 >/proc/sys/net/ipv6/conf/$NETDEV/accept_dad
  ip link set $NETDEV up
  ip neighbour add fe80::c9ff:fe00:$IMAGE lladdr 02:00:c9:00:00:0$IMAGE dev $NETDEV nud permanent
fi
until ibv_devinfo -d $DEVICE | grep -q PORT_ACTIVE; do sleep 0.1; done
GID=
until [ -z "$NETDEV" ] || [ -n "$GID" ]; do
  for i in $(seq 0 15); do
    grep -qs "RoCE v2" /sys/class/infiniband/$DEVICE/ports/1/gid_attrs/types/$i || continue
    grep -q ^fe80 /sys/class/infiniband/$DEVICE/ports/1/gids/$i && GID="-g $i" && break
  done
done
"#;

/// Our images against rdma-core's ping-pongs on Linux's own driver, on both links, in both roles.
pub fn linux(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    for link in [Link::Ib, Link::Roce] {
        tally.add(mixed(bench, Peer::card(link)).with_context(|| format!("{link:?}"))?);
    }
    Ok(tally)
}

/// Our images against rdma-core's ping-pongs on Linux's RoCE in software, in both roles.
pub fn rxe(bench: &Bench) -> Result<Tally> {
    mixed(bench, Peer::rxe())
}

fn mixed(bench: &Bench, peer: Peer) -> Result<Tally> {
    const N: u32 = 20;
    let Peer { name: peer, device, prepare, options } = peer;
    let (mut script, mut images, mut names) = (format!("DEVICE={device}; {prepare}\n{PREPARE}"), vec![], vec![]);
    for ((image, program, lines, sent), role) in MIXED.iter().flat_map(|row| ROLES.map(|role| (row, role))) {
        script += &format!(
            "echo image: {}; timeout 120 python3 serial_relay.py {role} {lines} {sent} {program} -d {device} -n {N} $GID; echo case: $?\n",
            images.len()
        );
        let size = if program.contains("-s 1024") { "-s 1024" } else { "" };
        let is_client = if role == "server" { "peer" } else { "" };
        let arguments = format!("-n {N} {size} {is_client}").split_whitespace().map(String::from).collect();
        images.push(Options { arguments, ..Options::of(&[image]) });
        names.push(format!("{image} against {program} as {role} on {peer}"));
    }
    let linux = linux::Options {
        copies: vec![bench.workspace.root.join("tests/linux/serial_relay.py")],
        command: vec![script],
        ..options
    };
    let outcome = mixed::run(bench.workspace, &bench.shell, &linux, &images)?;
    let mut tally = Tally::default();
    let done = format!("{N} iters in ");
    for (name, case) in names.iter().zip(&outcome.cases) {
        let right = case.status == Some(0) && case.image == Some(End::Status(0)) && case.output.contains(&done);
        tally.count(if right {
            Ok(())
        } else {
            Err(anyhow!("{name}: Linux {:?}, the image {:?}\n{}", case.status, case.image, case.output))
        });
    }
    let all = outcome.linux.matches(&done).count() == images.len() && outcome.model.0.success();
    tally.count(if all {
        Ok(())
    } else {
        Err(anyhow!("{peer}: the model ended with {}\n{}\nLinux:\n{}", outcome.model.0, outcome.model.1, outcome.linux))
    });
    Ok(tally)
}

/// From QEMU's start until a ping-pong of one message is through: two images, against two Linux guests.
pub fn boot_time(bench: &Bench) -> Result<Tally> {
    let arguments = ["-n", "1"].map(String::from).into();
    let options = Options { arguments, ..Options::of(&["img_rc_pingpong", "img_rc_pingpong"]) };
    let mut images = vec![];
    for _ in 0..3 {
        let mut first = None;
        let outcome = qemu::run(bench.workspace, &bench.shell, &options, |_, line| note_first(line, &mut first))?;
        outcome.check()?;
        images.push(first.context("the images have not played")? - outcome.booted);
    }
    images.sort();
    // The median: a busy host delays a short run by more than a long one.
    let image = images[1];

    let mut first = None;
    let command = "until ibv_devinfo | grep -q PORT_ACTIVE; do sleep 0.1; done; \
                   [ $GUEST = 1 ] && exec ibv_rc_pingpong -n 1; \
                   until ibv_rc_pingpong -n 1 $PEER; do sleep 0.1; done";
    let options = linux::Options { guests: 2, command: vec![command.into()], ..linux::Options::default() };
    let outcome = linux::run(bench.workspace, &bench.shell, &options, |_, line| note_first(line, &mut first))?;
    ensure!(outcome.statuses == [0, 0], "Linux has not played: {:?}", outcome.output);
    let linux = first.context("Linux has not played")? - outcome.booted;

    let mut tally = Tally::default();
    let seconds = [image, linux].map(|time| time.as_secs_f64());
    let sooner = seconds[1] / seconds[0];
    let figures =
        format!("first message {:.2} s after QEMU's start, with Linux {:.2} s: {sooner:.0} x", seconds[0], seconds[1]);
    // Told, not judged: what a busy host does to two short times is no fault of the image.
    tally.pass();
    tally.notes.push(figures);
    Ok(tally)
}

/// Takes the time of the line that ends a ping-pong of one message.
fn note_first(line: &str, first: &mut Option<Instant>) {
    if line.starts_with("1 iters in ") {
        first.get_or_insert_with(Instant::now);
    }
}

const GUIDE: &str = "docs/link-it-into-your-unikernel.md";
/// The files that it shows.
const GUIDE_FILES: [&str; 6] = ["lib.rs", "kernel.rs", "hal.rs", "pool.rs", "check.rs", "card.rs"];

/// What the guide shows is the library of the example, letter for letter and all of it.
pub fn guide(bench: &Bench) -> Result<Tally> {
    let read = |name: &str| fs::read_to_string(bench.workspace.root.join(name)).with_context(|| name.to_owned());
    let guide = read(GUIDE)?;
    let mut rest: Vec<&str> = quotes(&guide).collect();
    let mut tally = Tally::default();
    for name in GUIDE_FILES {
        let file = read(&format!("examples/unikernel-guest/src/{name}"))?;
        let (parts, others): (Vec<_>, Vec<_>) = rest.iter().partition(|quote| file.contains(**quote));
        rest = others;
        let shown = parts.join("\n");
        let differ = file.lines().find(|line| !shown.lines().any(|l| l == *line)).unwrap_or("its order");
        let whole = shown == file;
        tally.count(if whole { Ok(()) } else { Err(anyhow!("{GUIDE} does not show all of {name} ({differ})")) });
    }
    for quote in rest {
        tally.fail(format!("{GUIDE}: no file of the example has\n{quote}"));
    }
    Ok(tally)
}

/// The Rust code of a page.
fn quotes(page: &str) -> impl Iterator<Item = &str> {
    page.split("```rust\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0))
}

/// The HAL of the guide keeps the promises, on a device that copies and on an HCA, and carries a ping-pong.
pub fn guest(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    let edu = Options { no_hca: true, devices: vec![COPIES.into()], ..Options::of(&["img_guest"]) };
    tally.count(guest_says(bench, &edu, "ok      a device without bus mastering is silent").context(COPIES));
    for debug in [false, true] {
        let arguments = ["-c", "-n", "200"].map(String::from).into();
        let hcas = Options { debug, arguments, ..Options::of(&["img_guest", "img_rc_pingpong"]) };
        tally.count(guest_says(bench, &hcas, "200 iters in ").with_context(|| format!("ping-pong, debug {debug}")));
    }
    Ok(tally)
}

fn guest_says(bench: &Bench, options: &Options, says: &str) -> Result<()> {
    let outcome = run(bench, options)?;
    outcome.check()?;
    let text = &outcome.output[0];
    ensure!(text.contains("\n0 broken\n") && text.contains(says), "{says:?} was expected:\n{}", outcome.said());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::quotes;

    #[test]
    fn quotes_are_the_rust_blocks() {
        let page = "# A\n```rust\nfn a() {}\n```\n```text\n$ b\n```\n```rust\nfn c() {}\n```\n";
        assert!(quotes(page).eq(["fn a() {}\n", "fn c() {}\n"]));
    }
}
