//! Memory windows: a key that requests bind to a part of a region, and take back.

use crate::{
    device::{Node, Pd, refuse_if_held},
    execute::Outcome,
    qp::QpState,
};
use bareverbs::{Access, Bind, Destroy, Error, MemoryWindow, Refused, Rkey, WcOpcode, WcStatus, WindowKind};
use std::{
    cell::{Cell, RefCell},
    ptr::NonNull,
    rc::{Rc, Weak},
};

/// Windows' keys have it, regions' have not.
const MARK: u32 = 1 << 31;
/// The bits of a key that a bind changes.
const VARIANT: u32 = 0xff;

/// A memory window.
pub struct Window(Rc<WindowState>);

pub(crate) struct WindowState {
    pub(crate) node: Rc<Node>,
    kind: WindowKind,
    pd: Rc<u32>,
    /// Of the newest bind that was posted; of type 2, what the next one gives.
    key: Cell<u32>,
    bound: RefCell<Option<Bound>>,
}

/// What a window opens.
struct Bound {
    key: u32,
    to: Bind,
    /// Type 2: the only QP that it serves.
    qp: Option<u32>,
}

/// A bind that was posted. The window may go before it is done.
pub(crate) struct PostedBind {
    window: Weak<WindowState>,
    key: u32,
    to: Bind,
}

impl Window {
    pub(crate) fn new(node: Rc<Node>, pd: &Pd, kind: WindowKind) -> Self {
        let number = node.number();
        let key = MARK | number << VARIANT.count_ones();
        let state = WindowState { node, kind, pd: pd.id.clone(), key: Cell::new(key), bound: RefCell::default() };
        let state = Rc::new(state);
        state.node.windows.borrow_mut().insert(key, Rc::downgrade(&state));
        Self(state)
    }

    /// Whether it is of a device.
    pub(crate) fn is_of(&self, node: &Rc<Node>) -> bool {
        Rc::ptr_eq(&self.0.node, node)
    }

    /// A bind to be posted, and the key that it gives: another one each time for type 1.
    pub(crate) fn bind(&mut self, to: &Bind) -> (PostedBind, Rkey) {
        let old = self.0.key.get();
        let key = match self.0.kind {
            WindowKind::One => old & !VARIANT | old.wrapping_add(1) & VARIANT,
            WindowKind::TwoB => old,
        };
        self.0.key.set(key);
        (PostedBind { window: Rc::downgrade(&self.0), key, to: *to }, Rkey(key))
    }
}

impl Drop for WindowState {
    fn drop(&mut self) {
        self.node.windows.borrow_mut().remove(&(self.key.get() & !VARIANT));
    }
}

impl Node {
    fn window(&self, key: u32) -> Option<Rc<WindowState>> {
        self.windows.borrow().get(&(key & !VARIANT)).and_then(Weak::upgrade)
    }

    /// Windows that are bound to a region.
    pub(crate) fn windows_of(&self, region: u32) -> u32 {
        let windows = self.windows.borrow();
        let is_bound = |w: &Rc<WindowState>| w.bound.borrow().as_ref().is_some_and(|b| b.to.lkey().0 == region);
        windows.values().filter_map(Weak::upgrade).filter(is_bound).count() as u32
    }
}

impl QpState {
    /// Executes a bind (IBA 10.6.7.2).
    pub(crate) fn bind(&self, posted: &PostedBind) -> Outcome {
        let refused = Outcome::Failed(WcStatus::MemoryWindowBind);
        let Some(window) = posted.window.upgrade().filter(|w| *w.pd == *self.pd) else { return refused };
        let to = posted.to;
        let mut bound = window.bound.borrow_mut();
        if to.length() == 0 {
            *bound = None;
            return Outcome::Done(WcOpcode::BindWindow, 0);
        }
        // A window of type 2 is invalidated before it is bound again.
        if window.kind == WindowKind::TwoB && bound.is_some() {
            return refused;
        }
        let mut needs = Access::MW_BIND;
        needs.set(Access::LOCAL_WRITE, to.access().intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC));
        if self.node.translate(*self.pd, to.lkey().0, to.addr(), to.length() as usize, needs).is_none() {
            return refused;
        }
        let qp = (window.kind == WindowKind::TwoB).then_some(self.number);
        *bound = Some(Bound { key: posted.key, to, qp });
        Outcome::Done(WcOpcode::BindWindow, 0)
    }

    /// The memory that a window opens to a peer of this QP, if it allows it.
    pub(crate) fn through_window(&self, key: u32, addr: u64, len: usize, needs: Access) -> Option<NonNull<u8>> {
        let window = self.node.window(key).filter(|w| *w.pd == *self.pd)?;
        let bound = window.bound.borrow();
        let bound = bound.as_ref().filter(|b| b.key == key && b.qp.is_none_or(|qp| qp == self.number))?;
        let end = addr.checked_add(len as u64)?;
        let inside = addr >= bound.to.addr() && end <= bound.to.addr() + u64::from(bound.to.length());
        let allowed = inside && bound.to.access().contains(needs);
        allowed.then(|| self.node.translate(*self.pd, bound.to.lkey().0, addr, len, Access::empty()))?
    }

    /// The window of type 2 that this QP bound and that has this key: what alone can be invalidated (IBA 10.6.7.2.6).
    pub(crate) fn own_window(&self, key: u32) -> Option<Rc<WindowState>> {
        let own = |b: &Bound| b.key == key && b.qp == Some(self.number);
        self.node.window(key).filter(|w| w.bound.borrow().as_ref().is_some_and(own))
    }
}

impl WindowState {
    /// Closes it.
    pub(crate) fn close(&self) {
        *self.bound.borrow_mut() = None;
    }
}

impl Destroy for Window {
    fn destroy(self) -> Result<(), Refused<Self>> {
        refuse_if_held(self, |window| Rc::strong_count(&window.0))
    }
}

impl MemoryWindow for Window {
    fn kind(&self) -> WindowKind {
        self.0.kind
    }

    fn rkey(&self) -> Rkey {
        Rkey(self.0.key.get())
    }

    fn set_variant(&mut self, variant: u8) -> Result<(), Error> {
        match self.0.kind {
            WindowKind::One => Err(Error::Unsupported("choosing the key of a type 1 window")),
            WindowKind::TwoB => {
                self.0.key.set(self.0.key.get() & !VARIANT | u32::from(variant));
                Ok(())
            }
        }
    }
}
