//! Serves a modelled function to a virtual machine monitor: the server side of the vfio-user protocol (QEMU's
//! `docs/interop/vfio-user.rst`, version 0.1), which QEMU 10.1 and later speak as `-device vfio-user-pci`.
//!
//! One [`Server`] is one function on one Unix socket. It serves one client at a time; a client that hangs up or is
//! killed leaves the function as after a reset of the bus, with nothing mapped, and the next one is served. The guest's
//! memory has to come as file descriptors that can be mapped and cannot shrink (`memory-backend-memfd,share=on`):
//! memory without one cannot be reached, and the device's access to it is a DMA fault.
//!
//! A client is not trusted: what it gets wrong is answered with an error number, what cannot be answered ends the
//! connection.

mod interrupts;
mod memory;
mod message;
mod session;

use crate::{
    model::{DeviceModel, PciIdentity},
    slot::Slot,
    world::World,
};
use rustix::net::Shutdown;
use session::Session;
use std::{
    fs, io,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

/// A function that is served on a socket until this is dropped.
#[derive(Debug)]
pub struct Server {
    slot: Slot,
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the server's thread and its owner share.
#[derive(Debug)]
struct Shared {
    listener: UnixListener,
    client: Mutex<Client>,
}

#[derive(Debug)]
enum Client {
    None,
    Connected(UnixStream),
    /// Nobody is served any more.
    Stopped,
}

impl Server {
    /// Plugs a device into the world and begins to serve it. A socket that a server has left behind is replaced.
    ///
    /// # Errors
    /// If the socket cannot be made; [`io::ErrorKind::AddrInUse`] if somebody listens on it.
    ///
    /// # Panics
    /// As [`World::plug_slot`].
    pub fn start(world: &World, model: Box<dyn DeviceModel>, path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_owned();
        let listener = listen(&path)?;
        let identity = model.identity();
        let slot = world.plug_slot(model);
        let shared = Arc::new(Shared { listener, client: Mutex::new(Client::None) });
        let thread = {
            let (slot, shared) = (slot.clone(), shared.clone());
            thread::Builder::new().name("vfio-user".into()).spawn(move || serve(&shared, &slot, &identity))?
        };
        Ok(Self { slot, path, shared, thread: Some(thread) })
    }

    /// The function's place in the world.
    pub fn slot(&self) -> &Slot {
        &self.slot
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut client = self.shared.lock();
        if let Client::Connected(stream) = &*client {
            // It may have hung up by itself, which is as good.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        *client = Client::Stopped;
        drop(client);
        // Lets the thread out of its accept (Linux: EINVAL).
        let _ = rustix::net::shutdown(&self.shared.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // A panic was told already by the thread itself.
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes who is served now; false if nobody shall be.
    fn enter(&self, stream: &UnixStream) -> bool {
        let mut client = self.lock();
        match (&*client, stream.try_clone()) {
            (Client::Stopped, _) | (_, Err(_)) => false,
            (_, Ok(stream)) => {
                *client = Client::Connected(stream);
                true
            }
        }
    }

    /// The client has gone; false if nobody shall be served any more.
    fn leave(&self) -> bool {
        let mut client = self.lock();
        if matches!(*client, Client::Stopped) {
            return false;
        }
        *client = Client::None;
        true
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
            match UnixStream::connect(path) {
                Err(c) if c.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
                _ => return Err(e),
            }
            UnixListener::bind(path)
        }
        other => other,
    }
}

/// Serves one client after the other.
fn serve(shared: &Shared, slot: &Slot, identity: &PciIdentity) {
    loop {
        let stream = match shared.listener.accept() {
            Ok((stream, _)) => stream,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => {
                if shared.leave() {
                    log::error!("the vfio-user socket accepts nobody any more: {e}");
                }
                return;
            }
        };
        if shared.enter(&stream)
            && let Err(e) = Session::new(stream, slot, identity).run()
        {
            log::warn!("vfio-user client of function {}: {e}", slot.index());
        }
        if !shared.leave() {
            return;
        }
    }
}
