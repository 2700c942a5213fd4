//! Both ends in one process, on one thread or on two.

use super::process::{Failed, Stdout};
use crate::{
    address::Address,
    endpoint::{Endpoint, Failure, Progress},
    options::Options,
    report::{self, Outcome},
};
use bareverbs::{Device, RawMemory};
use std::{
    alloc::{Layout, alloc_zeroed},
    ptr::NonNull,
    sync::mpsc,
    thread,
};

/// Memory of the process for the buffers of a run; given back by the system when the program ends.
pub(crate) fn buffer(len: usize) -> Option<RawMemory> {
    let layout = Layout::from_size_align(len.max(1), 4096).ok()?;
    // SAFETY: the layout is not empty.
    let ptr = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    // SAFETY: the memory is never freed and nobody else has it.
    Some(unsafe { RawMemory::new(NonNull::slice_from_raw_parts(ptr, len)) })
}

/// What an end has to say when it is through.
struct Told {
    local: Vec<Address>,
    remote: Vec<Address>,
    outcome: Outcome,
}

fn addresses(told: &Told) -> std::fmt::Result {
    told.local.iter().try_for_each(|a| report::local(&mut Stdout, a))?;
    told.remote.iter().try_for_each(|a| report::remote(&mut Stdout, a))
}

/// Says which end a failure is of. The numbers are those of [`Endpoint::new`].
fn of_end(sender: u8) -> impl Fn(Failure) -> Failed {
    move |failure| format!("{}: {failure}", ["server", "client"][usize::from(sender & 1)]).into()
}

fn print(o: &Options<'_>, ends: [Told; 2]) -> Result<(), Failed> {
    if o.json {
        for told in &ends {
            let (local, remote) = (told.local.first(), told.remote.first());
            told.outcome.json(
                &mut Stdout,
                &local.copied().unwrap_or_default(),
                &remote.copied().unwrap_or_default(),
            )?;
        }
        return Ok(());
    }
    ends.iter().try_for_each(addresses)?;
    ends.iter().try_for_each(|told| told.outcome.lines(&mut Stdout))?;
    Ok(())
}

/// Plays both ends step by step on this thread: server first, client second.
pub(crate) fn on_one_thread<D: Device>(o: &Options<'_>, devices: [D; 2], seed: u64) -> Result<(), Failed> {
    let [server, client] = devices;
    let (of_server, of_client) = (of_end(0), of_end(1));
    let mut server = Endpoint::new(server, o, 0, seed, buffer).map_err(&of_server)?;
    let mut client = Endpoint::new(client, o, 1, seed, buffer).map_err(&of_client)?;
    let (s, c): (Vec<_>, Vec<_>) = (server.addresses().collect(), client.addresses().collect());
    server.connect(o, &c).map_err(&of_server)?;
    client.connect(o, &s).map_err(&of_client)?;
    server.start().map_err(&of_server)?;
    client.start().map_err(&of_client)?;
    loop {
        let progress = (server.step().map_err(&of_server)?, client.step().map_err(&of_client)?);
        if progress == (Progress::Done, Progress::Done) {
            break;
        }
    }
    let told = [
        Told { local: s.clone(), remote: c.clone(), outcome: server.outcome() },
        Told { local: c, remote: s, outcome: client.outcome() },
    ];
    server.close().map_err(of_server)?;
    client.close().map_err(of_client)?;
    print(o, told)
}

/// Plays each end on a thread of its own, which opens its device there.
pub(crate) fn on_two_threads<D: Device>(
    o: &Options<'_>,
    open: [Box<dyn FnOnce() -> Result<D, Failed> + Send + '_>; 2],
    seed: u64,
) -> Result<(), Failed> {
    let [open_server, open_client] = open;
    let (to_client, from_server) = mpsc::channel();
    let (to_server, from_client) = mpsc::channel();
    thread::scope(|scope| {
        let server = scope.spawn(move || one_end(o, open_server, 0, seed, to_client, from_client));
        let client = scope.spawn(move || one_end(o, open_client, 1, seed, to_server, from_server));
        let joined = [server.join(), client.join()].map(|end| end.unwrap_or_else(|_| Err("an end panicked".into())));
        match joined {
            // What an end itself says comes before what it says of the other.
            [Err(e), Err(other)] => Err(if e.is::<GaveUp>() { other } else { e }),
            [server, client] => print(o, [server?, client?]),
        }
    })
}

/// The other end is gone, for a reason that it tells itself.
#[derive(Debug)]
struct GaveUp;

impl std::fmt::Display for GaveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the other end gave up")
    }
}

impl std::error::Error for GaveUp {}

fn one_end<D: Device>(
    o: &Options<'_>,
    open: Box<dyn FnOnce() -> Result<D, Failed> + Send + '_>,
    sender: u8,
    seed: u64,
    to: mpsc::Sender<Vec<Address>>,
    from: mpsc::Receiver<Vec<Address>>,
) -> Result<Told, Failed> {
    let failed = of_end(sender);
    let mut end = Endpoint::new(open()?, o, sender, seed, buffer).map_err(&failed)?;
    let local: Vec<_> = end.addresses().collect();
    to.send(local.clone()).map_err(|_| GaveUp)?;
    let remote = from.recv().map_err(|_| GaveUp)?;
    end.connect(o, &remote).map_err(&failed)?;
    // The client must not send before the server is ready to receive: a second exchange says so.
    to.send(Vec::new()).map_err(|_| GaveUp)?;
    from.recv().map_err(|_| GaveUp)?;
    end.start().map_err(&failed)?;
    let mut peer_done = false;
    loop {
        match end.step().map_err(&failed)? {
            Progress::Done => break,
            Progress::Worked => {}
            Progress::Idle => match from.try_recv() {
                Ok(_) => peer_done = true,
                Err(mpsc::TryRecvError::Disconnected) if !peer_done => return Err(GaveUp.into()),
                Err(_) => {}
            },
        }
    }
    let outcome = end.outcome();
    // Nor may an end go away while the other still waits for its last acknowledgement.
    to.send(Vec::new()).or(if peer_done { Ok(()) } else { Err(GaveUp) })?;
    if !peer_done {
        from.recv().map_err(|_| GaveUp)?;
    }
    end.close().map_err(&failed)?;
    Ok(Told { local, remote, outcome })
}
