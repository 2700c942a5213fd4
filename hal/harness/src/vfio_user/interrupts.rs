//! MSI-X vectors as event file descriptors of the client.

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::{Errno, write},
};
use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
};

/// What each vector signals. Cheap to clone; clones name the same vectors.
#[derive(Clone, Debug)]
pub(super) struct Vectors(Arc<Mutex<Vec<Option<OwnedFd>>>>);

impl Vectors {
    pub(super) fn new(count: u16) -> Self {
        Self(Arc::new(Mutex::new((0..count).map(|_| None).collect())))
    }

    /// Lets the vectors from `start` on signal these descriptors, or nothing.
    pub(super) fn set(&self, start: usize, fds: impl ExactSizeIterator<Item = Option<OwnedFd>>) -> Result<(), Errno> {
        let mut vectors = self.lock();
        let end = start.checked_add(fds.len()).ok_or(Errno::INVAL)?;
        let vectors = vectors.get_mut(start..end).ok_or(Errno::INVAL)?;
        for (vector, fd) in vectors.iter_mut().zip(fds) {
            if let Some(fd) = &fd {
                // The devices' thread must not wait for a client that does not read.
                fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
            }
            *vector = fd;
        }
        Ok(())
    }

    /// No vector signals anything any more.
    pub(super) fn clear(&self) {
        self.lock().iter_mut().for_each(|v| *v = None);
    }

    /// Signals a vector. One without a descriptor is lost, as is one whose client does not read.
    pub(super) fn raise(&self, vector: usize) {
        if let Some(Some(fd)) = self.lock().get(vector) {
            let _ = write(fd, &1u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<OwnedFd>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
