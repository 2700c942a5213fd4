//! The vfio-user server as a client sees it: literal messages of the protocol, and hostile ones.
#![cfg(feature = "vfio-user")]

use bareverbs_harness::{
    World,
    model::{BarKind, Bus, DeviceModel, Frame, LinkKind, PciIdentity, Reset, Step},
    vfio_user::Server,
};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create},
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
};
use std::{
    fs::File,
    io::{IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{fs::FileExt, net::UnixStream},
    },
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// A device with one register: a write to it reads eight bytes of memory at that address, adds one, writes them back,
/// and raises vector 3. Reading it gives the last value. Other registers keep nothing.
struct Adder {
    last: u64,
    resets: Arc<AtomicU64>,
}

impl DeviceModel for Adder {
    fn identity(&self) -> PciIdentity {
        use BarKind::None;
        PciIdentity {
            vendor: 0x15b3,
            device: 0x1017,
            subsystem_vendor: 0x15b3,
            subsystem: 8,
            revision: 0,
            class: 0x02_0000,
            bars: [BarKind::Memory64(1 << 20), None, None, None, None, None],
            msix_vectors: 8,
        }
    }

    fn ports(&self) -> Vec<LinkKind> {
        vec![]
    }

    fn mmio_read(&mut self, _bus: &mut dyn Bus, _bar: u8, offset: u64, data: &mut [u8]) {
        let bytes = self.last.to_le_bytes();
        data.iter_mut().enumerate().for_each(|(i, b)| *b = bytes[(offset as usize + i) % 8]);
    }

    fn mmio_write(&mut self, bus: &mut dyn Bus, _bar: u8, offset: u64, data: &[u8]) {
        let (0, Ok(addr)) = (offset, data.try_into().map(u64::from_le_bytes)) else { return };
        let mut word = [0; 8];
        if bus.read(addr, &mut word).is_ok() {
            self.last = u64::from_le_bytes(word).wrapping_add(1);
            if bus.write(addr, &self.last.to_le_bytes()).is_ok() {
                bus.interrupt(3);
            }
        }
    }

    fn receive(&mut self, _bus: &mut dyn Bus, _port: u8, _frame: Frame) {}

    fn step(&mut self, _bus: &mut dyn Bus) -> Step {
        Step::Idle
    }

    fn next_deadline(&self) -> Option<Duration> {
        None
    }

    fn bus_master(&mut self, _bus: &mut dyn Bus, _on: bool) {}

    fn reset(&mut self, _bus: &mut dyn Bus, _reset: Reset) {
        self.last = 0;
        self.resets.fetch_add(1, Ordering::SeqCst);
    }
}

struct Bench {
    server: Server,
    path: PathBuf,
    resets: Arc<AtomicU64>,
}

fn bench() -> Bench {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("vfio-user-{}-{number}", std::process::id()));
    let resets = Arc::new(AtomicU64::new(0));
    let world = World::builder().threaded(true).quiet_limit(None).build();
    let server = Server::start(&world, Box::new(Adder { last: 0, resets: resets.clone() }), &path).unwrap();
    Bench { server, path, resets }
}

/// Sends a command with descriptors and returns error number and body of the answer.
fn call(stream: &mut UnixStream, command: u16, body: &[u8], fds: &[BorrowedFd<'_>]) -> (u32, Vec<u8>) {
    let mut m = Vec::new();
    m.extend(0x1234u16.to_le_bytes());
    m.extend(command.to_le_bytes());
    m.extend((16 + body.len() as u32).to_le_bytes());
    m.extend([0; 8]);
    m.extend(body);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    let sent = sendmsg(&mut *stream, &[IoSlice::new(&m)], &mut control, SendFlags::empty()).unwrap();
    stream.write_all(&m[sent..]).unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).unwrap();
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), u32::from(command) << 16 | 0x1234, "answers the command");
    let mut body = vec![0; word(4) as usize - 16];
    stream.read_exact(&mut body).unwrap();
    assert_eq!(word(8), if word(12) == 0 { 1 } else { 0x21 }, "reply flags");
    (word(12), body)
}

fn le(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// The body of an access to a region.
fn access(offset: u64, region: u32, data: &[u8]) -> Vec<u8> {
    [&offset.to_le_bytes()[..], &le(&[region, data.len() as u32]), data].concat()
}

fn dma_map(offset: u64, addr: u64, len: u64) -> Vec<u8> {
    [&le(&[32, 3])[..], &offset.to_le_bytes(), &addr.to_le_bytes(), &len.to_le_bytes()].concat()
}

fn memory(len: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create("guest", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, len).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

/// Turns memory decoding and bus mastering on.
fn enable(stream: &mut UnixStream) {
    assert_eq!(call(stream, 10, &access(4, 7, &[6, 0]), &[]).0, 0);
}

#[test]
fn a_client_finds_a_pci_function() {
    let bench = bench();
    let mut s = UnixStream::connect(&bench.path).unwrap();
    let (error, body) = call(&mut s, 1, b"\0\0\x01\0{\"capabilities\":{}}\0", &[]);
    assert_eq!((error, &body[..4]), (0, &[0, 0, 1, 0][..]));
    assert!(body.ends_with(b"}\0"), "{}", String::from_utf8_lossy(&body));
    // argsz, flags (reset, PCI), regions, interrupts
    assert_eq!(call(&mut s, 4, &le(&[16, 0, 0, 0]), &[]), (0, le(&[16, 3, 9, 5])));
    let region = |s: &mut UnixStream, n| call(s, 5, &le(&[32, 0, n, 0, 0, 0, 0, 0]), &[]);
    assert_eq!(region(&mut s, 0), (0, le(&[32, 3, 0, 0, 1 << 20, 0, 0, 0])));
    assert_eq!(region(&mut s, 7), (0, le(&[32, 3, 7, 0, 4096, 0, 0, 0])));
    assert_eq!(region(&mut s, 9).0, 22, "EINVAL");
    assert_eq!(call(&mut s, 7, &le(&[16, 0, 2, 0]), &[]), (0, le(&[16, 9, 2, 8])));
    let (_, ids) = call(&mut s, 9, &[&access(0, 7, &[])[..12], &le(&[4])].concat(), &[]);
    assert_eq!(ids[16..], [0xb3, 0x15, 0x17, 0x10]);
    assert_eq!(call(&mut s, 11, &[], &[]).0, 38, "ENOSYS");
}

#[test]
fn the_device_reaches_mapped_memory_and_signals_its_vector() {
    let bench = bench();
    let mut s = UnixStream::connect(&bench.path).unwrap();
    let guest = memory(0x4000, SealFlags::SHRINK);
    let file = File::from(guest.try_clone().unwrap());
    file.write_all_at(&41u64.to_le_bytes(), 0x2010).unwrap();
    // One page at a time, as behind a virtual IOMMU, in another order than in the file.
    assert_eq!(call(&mut s, 2, &dma_map(0x2000, 0x7000_0000, 0x1000), &[guest.as_fd()]).0, 0);
    assert_eq!(call(&mut s, 2, &dma_map(0x1000, 0x7000_1000, 0x1000), &[guest.as_fd()]).0, 0);
    assert_eq!(call(&mut s, 2, &dma_map(0, 0x7000_0000, 0x2000), &[guest.as_fd()]).0, 17, "EEXIST");
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
    // Vector 3: trigger by event descriptor.
    assert_eq!(call(&mut s, 8, &le(&[20, 4 | 32, 2, 3, 1]), &[event.as_fd()]).0, 0);
    enable(&mut s);
    assert_eq!(call(&mut s, 10, &access(0, 0, &0x7000_0010u64.to_le_bytes()), &[]).0, 0);
    let mut word = [0; 8];
    file.read_exact_at(&mut word, 0x2010).unwrap();
    assert_eq!(u64::from_le_bytes(word), 42);
    rustix::io::read(&event, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 1, "one interrupt");
    let read = [&access(0, 0, &[])[..12], &le(&[8])].concat();
    assert_eq!(call(&mut s, 9, &read, &[]).1[16..], 42u64.to_le_bytes());
    // All of it goes in one piece.
    let unmap = [&le(&[24, 0])[..], &0x7000_0000u64.to_le_bytes(), &0x2000u64.to_le_bytes()].concat();
    assert_eq!(call(&mut s, 3, &unmap, &[]), (0, unmap));
    assert_eq!(bench.server.slot().dma_fault_count(), 0);
    call(&mut s, 10, &access(0, 0, &0x7000_0010u64.to_le_bytes()), &[]);
    assert_eq!(bench.server.slot().dma_fault_count(), 1);
}

#[test]
fn what_cannot_be_mapped_is_refused_by_number() {
    let bench = bench();
    let mut s = UnixStream::connect(&bench.path).unwrap();
    let sealed = memory(0x4000, SealFlags::SHRINK);
    let unsealed = memory(0x4000, SealFlags::empty());
    let mut map = |body: &[u8], fds: &[BorrowedFd<'_>]| call(&mut s, 2, body, fds).0;
    assert_eq!(map(&dma_map(0, 0, 0x1000), &[unsealed.as_fd()]), 1, "EPERM: it could shrink");
    assert_eq!(map(&dma_map(0, 0, 0x5000), &[sealed.as_fd()]), 22, "beyond the file");
    assert_eq!(map(&dma_map(u64::MAX - 0xfff, 0, 0x2000), &[sealed.as_fd()]), 22);
    assert_eq!(map(&dma_map(0, u64::MAX - 0xfff, 0x2000), &[sealed.as_fd()]), 22);
    assert_eq!(map(&dma_map(0, 0x800, 0x1000), &[sealed.as_fd()]), 22, "no page");
    assert_eq!(map(&dma_map(0, 0, 0), &[sealed.as_fd()]), 22);
    assert_eq!(map(&dma_map(0, 0, 0x1000), &[sealed.as_fd(), sealed.as_fd()]), 22, "two files");
    assert_eq!(map(&[0; 31], &[sealed.as_fd()]), 22, "short");
    assert_eq!(map(&dma_map(0, 0x10_0000, 0x1000), &[]), 0, "no file: out of the device's reach");
    enable(&mut s);
    call(&mut s, 10, &access(0, 0, &0x10_0000u64.to_le_bytes()), &[]);
    assert_eq!(bench.server.slot().dma_fault_count(), 1);
    let part = [&le(&[24, 0])[..], &0u64.to_le_bytes(), &0x10_0800u64.to_le_bytes()].concat();
    assert_eq!(call(&mut s, 3, &part, &[]).0, 22, "a part of a range");
    // A guest that ends gives back all addresses in two halves.
    let upper = [&le(&[24, 0])[..], &(1u64 << 63).to_le_bytes(), &(1u64 << 63).to_le_bytes()].concat();
    assert_eq!(call(&mut s, 3, &upper, &[]).0, 0);
    let beyond = [&le(&[24, 0])[..], &(1u64 << 63).to_le_bytes(), &u64::MAX.to_le_bytes()].concat();
    assert_eq!(call(&mut s, 3, &beyond, &[]).0, 22);
}

#[test]
fn a_client_that_is_gone_leaves_a_reset_function_to_the_next() {
    let bench = bench();
    let guest = memory(0x1000, SealFlags::SHRINK);
    for round in 1..=3 {
        let mut s = UnixStream::connect(&bench.path).unwrap();
        assert_eq!(call(&mut s, 2, &dma_map(0, 0x1000, 0x1000), &[guest.as_fd()]).0, 0, "nothing is mapped");
        let (_, command) = call(&mut s, 9, &[&access(4, 7, &[])[..12], &le(&[2])].concat(), &[]);
        assert_eq!(command[16..], [0, 0], "decoding is off");
        enable(&mut s);
        // The last message is not even whole.
        s.write_all(&[1, 0, 9, 0, 99, 0]).unwrap();
        drop(s);
        while bench.resets.load(Ordering::SeqCst) < round {
            std::thread::yield_now();
        }
    }
}

#[test]
fn garbage_never_stops_the_server() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("SEED={seed}");
    let mut rng = oorandom::Rand64::new(seed);
    let bench = bench();
    let guest = memory(0x4000, SealFlags::SHRINK);
    for _ in 0..300 {
        let mut s = UnixStream::connect(&bench.path).unwrap();
        // Commands that exist with bodies that do not, some of them nearly right.
        for _ in 0..rng.rand_range(1..20) {
            let command = rng.rand_range(0..17) as u16;
            let mut body: Vec<u8> = (0..rng.rand_range(0..64)).map(|_| rng.rand_u64() as u8).collect();
            if rng.rand_range(0..2) == 0 {
                // Small numbers get further.
                body.chunks_mut(4).for_each(|c| c[1..].fill(0));
            }
            let fds: Vec<_> = (0..rng.rand_range(0..3)).map(|_| guest.as_fd()).collect();
            call(&mut s, command, &body, &fds);
        }
        // And what is no message at all.
        let noise: Vec<u8> = (0..rng.rand_range(0..200)).map(|_| rng.rand_u64() as u8).collect();
        // The server may have hung up.
        let _ = s.write_all(&noise);
    }
    let mut s = UnixStream::connect(&bench.path).unwrap();
    assert_eq!(call(&mut s, 4, &le(&[16, 0, 0, 0]), &[]), (0, le(&[16, 3, 9, 5])));
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let bench = bench();
    let world = World::new(0);
    let second = || Server::start(&world, Box::new(Adder { last: 0, resets: Arc::default() }), &bench.path);
    assert_eq!(second().unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    let path = bench.path.with_extension("stale");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = Server::start(&world, Box::new(Adder { last: 0, resets: Arc::default() }), &path).unwrap();
    drop(server);
    assert!(!path.exists(), "a server takes its socket away");
}
