//! The exchange of addresses over TCP, byte for byte that of the ibv_ ping-pongs (rdma-core, libibverbs/examples): the
//! client sends its lines, the server connects its QPs and answers with its own, the client says "done". A line is
//! `lid:qpn:psn:gid` and a zero byte.

use crate::{
    address::Address,
    options::{Options, Program},
};
use bareverbs::Error;
use std::{
    fmt,
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    time::Duration,
};

/// `0000:000000:000000:` and a GID of 32 digits, with the zero byte of C.
const LINE: usize = 19 + 32 + 1;

/// What the client says last, with the zero byte.
const DONE: &[u8; 5] = b"done\0";

/// Lines that ibv_srq_pingpong sends, however many QPs it plays with.
const SRQ_LINES: usize = 256;

/// How long the other end may take to finish after this one.
const END: Duration = Duration::from_secs(60);

/// Why the ends could not tell each other where they are.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No connection; with what was tried.
    NoConnection(String, io::Error),
    /// The connection broke.
    Broken(&'static str, io::Error),
    /// What came is no address.
    NotAnAddress(String),
    /// What this end does while it waits failed.
    Meanwhile(Error),
}

/// What an end does while it waits for the other one, again and again.
pub(crate) type Meanwhile<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

/// How often it does that.
const OFTEN: Duration = Duration::from_millis(1);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConnection(what, e) => write!(f, "{what}: {e}"),
            Self::Broken(when, e) => write!(
                f,
                "the connection broke {when}: {e}. Expected is the same program at the other end; its own message tells \
                 more"
            ),
            Self::NotAnAddress(line) => write!(
                f,
                "the other end sent {line:?}, an address (lid:qpn:psn:gid) was expected: is it the same ping-pong?"
            ),
            Self::Meanwhile(e) => write!(f, "answering for this end's addresses: {e}"),
        }
    }
}

impl std::error::Error for Failure {}

/// The connection to the other end.
pub(crate) struct Exchange {
    stream: TcpStream,
    lines: usize,
}

impl Exchange {
    /// As the client, to the host that the options name.
    pub(crate) fn connect(o: &Options<'_>, host: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect((host, o.tcp_port)).map_err(|e| {
            let what = format!("Couldn't connect to {host}:{} (start the other end first, without a host)", o.tcp_port);
            Failure::NoConnection(what, e)
        })?;
        Ok(Self { stream, lines: lines(o) })
    }

    /// As the server, on any address of this host.
    pub(crate) fn accept(o: &Options<'_>) -> Result<Self, Failure> {
        let failed = |e| Failure::NoConnection(format!("Couldn't listen to port {} (-p takes another)", o.tcp_port), e);
        let listener = TcpListener::bind(("::", o.tcp_port))
            .or_else(|_| TcpListener::bind(("0.0.0.0", o.tcp_port)))
            .map_err(failed)?;
        let (stream, _) = listener.accept().map_err(failed)?;
        Ok(Self { stream, lines: lines(o) })
    }

    /// Sends this end's addresses.
    pub(crate) fn send(&mut self, addresses: &[Address]) -> Result<(), Failure> {
        let mut text = Vec::with_capacity(self.lines * LINE);
        for i in 0..self.lines {
            text.extend(addresses.get(i).copied().unwrap_or_default().to_string().into_bytes());
            text.push(0);
        }
        self.stream.write_all(&text).map_err(|e| Failure::Broken("while this end sent its address", e))
    }

    /// Receives the other end's addresses.
    pub(crate) fn receive(&mut self, meanwhile: Meanwhile<'_>) -> Result<Vec<Address>, Failure> {
        let mut line = [0; LINE];
        (0..self.lines)
            .map(|_| {
                self.read(&mut line, "before the other end's address came", meanwhile)?;
                let text = String::from_utf8_lossy(&line);
                text.parse().map_err(|_| Failure::NotAnAddress(text.into_owned()))
            })
            .collect()
    }

    /// The client's last word.
    pub(crate) fn say_done(&mut self) -> Result<(), Failure> {
        self.stream.write_all(DONE).map_err(|e| Failure::Broken("at the client's \"done\"", e))
    }

    /// Waits for the client's last word.
    pub(crate) fn await_done(&mut self, meanwhile: Meanwhile<'_>) -> Result<(), Failure> {
        self.read(&mut [0; DONE.len()], "before the client's \"done\"", meanwhile)
    }

    fn read(&mut self, mut bytes: &mut [u8], when: &'static str, meanwhile: Meanwhile<'_>) -> Result<(), Failure> {
        let broken = |e| Failure::Broken(when, e);
        self.stream.set_read_timeout(Some(OFTEN)).map_err(broken)?;
        while !bytes.is_empty() {
            match self.stream.read(bytes) {
                Ok(0) => return Err(broken(io::ErrorKind::UnexpectedEof.into())),
                Ok(n) => bytes = &mut bytes[n..],
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    meanwhile().map_err(Failure::Meanwhile)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(broken(e)),
            }
        }
        Ok(())
    }

    /// Waits until the other end has finished too, so that it still gets its last acknowledgement. The ibv_ tools close
    /// their end right after the exchange, which ends the wait at once.
    pub(crate) fn finish(mut self) {
        // Whatever happens to the connection now, the run itself is over.
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = self.stream.set_read_timeout(Some(END));
        let _ = self.stream.read(&mut [0]);
    }
}

fn lines(o: &Options<'_>) -> usize {
    if o.program == Program::SrqPingpong { SRQ_LINES } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn options(program: Program, tcp_port: u16) -> Options<'static> {
        Options { tcp_port, ..Options::defaults(program) }
    }

    fn address(n: u32) -> Address {
        format!("{n:04x}:{n:06x}:{n:06x}:{n:032x}").parse().unwrap()
    }

    /// A free port: the system chose it, and is not likely to choose it again at once.
    fn free_port() -> u16 {
        TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
    }

    /// Plays the client of ibv_rc_pingpong by hand and returns what the server sent.
    #[test]
    fn a_server_answers_the_bytes_of_the_ibv_client() {
        let port = free_port();
        let server = thread::spawn(move || {
            let mut exchange = Exchange::accept(&options(Program::RcPingpong, port)).unwrap();
            let remote = exchange.receive(&mut || Ok(())).unwrap();
            exchange.send(&[address(2)]).unwrap();
            exchange.await_done(&mut || Ok(())).unwrap();
            exchange.finish();
            remote
        });
        let mut client = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(_) => thread::yield_now(),
            }
        };
        client.write_all(b"0001:000001:000001:00000000000000000000000000000001\0").unwrap();
        let mut answer = [0; 52];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"0002:000002:000002:00000000000000000000000000000002\0");
        client.write_all(b"done\0").unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the server says no more");
        drop(client);
        assert_eq!(server.join().unwrap(), [address(1)]);
    }

    #[test]
    fn srq_ends_exchange_256_lines() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = vec![0; 256 * 52];
            stream.read_exact(&mut lines).unwrap();
            stream.write_all(&lines).unwrap();
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).unwrap();
            rest
        });
        let mut exchange = Exchange::connect(&options(Program::SrqPingpong, port), "127.0.0.1").unwrap();
        let own: Vec<_> = (1..17).map(address).collect();
        exchange.send(&own).unwrap();
        let remote = exchange.receive(&mut || Ok(())).unwrap();
        assert_eq!((remote.len(), &remote[..16], remote[16]), (256, &own[..], Address::default()));
        exchange.say_done().unwrap();
        exchange.finish();
        assert_eq!(server.join().unwrap(), b"done\0");
    }

    #[test]
    fn what_is_no_address_is_shown() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || listener.accept().unwrap().0.write_all(&[b'x'; 52]).unwrap());
        let mut exchange = Exchange::connect(&options(Program::RcPingpong, port), "127.0.0.1").unwrap();
        let error = exchange.receive(&mut || Ok(())).unwrap_err().to_string();
        assert!(error.contains("xxxx") && error.contains("lid:qpn:psn:gid"), "{error}");
        server.join().unwrap();
    }
}
