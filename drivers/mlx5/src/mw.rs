//! Keys that requests change: memory windows and regions for fast registration. PRM: CREATE_MKEY, "User-Mode Memory
//! Registration"; manual pages ibv_alloc_mw, ibv_bind_mw. The requests are in `umr.rs`.

use crate::{
    cmd::PageList,
    control::{Control, count_up},
    counted::{Counted, Resident, handle},
    device::Mlx5,
    pd::Pd,
    policy::{Lock, Policy},
    sq::umr,
};
use bareverbs::{Argument, Error, Lkey, MemoryWindow, Object, Rkey, Sge, WindowKind};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{create_mkey, query_mkey},
    context::mkc,
};
use core::{
    cell::Cell,
    ops::Range,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// Index of a key that the device does not have.
const NO_INDEX: u32 = u32::MAX;

/// A memory window (ibv_alloc_mw).
pub struct Window<H: PciFunction, P: Policy>(pub(crate) Counted<Key<H, P>, P>);

/// A region for fast registration (Linux: ib_alloc_mr).
pub struct FastRegion<H: PciFunction, P: Policy>(pub(crate) Counted<Key<H, P>, P>);

handle!(Window);
handle!(FastRegion);

/// What a key is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Window(WindowKind),
    Region,
}

/// A key that UMR changes.
pub(crate) struct Key<H: PciFunction, P: Policy> {
    pub(crate) device: Mlx5<H, P>,
    pd: Pd<H, P>,
    pub(crate) kind: Kind,
    /// Index above, variant below.
    key: AtomicU32,
    /// Elements that its translation holds.
    pub(crate) capacity: u32,
    /// First address and bytes of what was registered last.
    range: (AtomicU64, AtomicU64),
    bound: Bound,
}

/// A window, in the list of all windows of the device.
pub(crate) struct Bound {
    index: AtomicU32,
    /// A bind was posted at some time: before that the device need not be asked.
    used: AtomicBool,
    next: Cell<Option<NonNull<Bound>>>,
}

// SAFETY: all but the list are atomics and handles; the list is changed and read under the control lock.
unsafe impl<H: PciFunction + Send + Sync> Send for Key<H, crate::Shared> {}
// SAFETY: as above.
unsafe impl<H: PciFunction + Send + Sync> Sync for Key<H, crate::Shared> {}

impl<H: PciFunction, P: Policy> Resident for Key<H, P> {
    type Platform = H;

    fn platform(&self) -> &H {
        &self.device.hca().hal
    }
}

impl<H: PciFunction, P: Policy> Window<H, P> {
    pub(crate) fn new(device: &Mlx5<H, P>, pd: &Pd<H, P>, kind: WindowKind) -> Result<Self, Error> {
        if device.hca().attr.max_mw == 0 {
            return Err(Error::Unsupported("memory windows"));
        }
        let window = Self(Key::new(device, pd, Kind::Window(kind), 1)?);
        let bound = NonNull::from(&window.0.bound);
        device.hca().control.with(|control| {
            window.0.bound.next.set(control.windows.replace(bound));
        });
        Ok(window)
    }
}

impl<H: PciFunction, P: Policy> FastRegion<H, P> {
    pub(crate) fn new(device: &Mlx5<H, P>, pd: &Pd<H, P>, elements: u32) -> Result<Self, Error> {
        let max = device.hca().attr.max_fast_reg_elements;
        if max == 0 {
            return Err(Error::Unsupported("fast registration"));
        }
        if elements == 0 || elements > max {
            let (wanted, max) = (elements.into(), max.into());
            return Err(Error::OutOfRange { what: Argument::FastElements, wanted, max });
        }
        Key::new(device, pd, Kind::Region, elements).map(Self)
    }
}

impl Kind {
    fn count(self, control: &mut Control) -> &mut u32 {
        match self {
            Self::Window(_) => &mut control.windows_made,
            Self::Region => &mut control.regions,
        }
    }
}

impl<H: PciFunction, P: Policy> Key<H, P> {
    fn new(device: &Mlx5<H, P>, pd: &Pd<H, P>, kind: Kind, capacity: u32) -> Result<Counted<Self, P>, Error> {
        let hca = device.hca();
        if !pd.belongs_to(device) {
            return Err(Error::Foreign(Object::Pd));
        }
        let (max, what) = match kind {
            Kind::Window(_) => (hca.caps.limits.windows, Argument::Windows),
            Kind::Region => (hca.caps.limits.regions, Argument::Regions),
        };
        let variant = hca.control.with(|control| {
            count_up(kind.count(control), max, what)?;
            Ok::<_, Error>(control.next_variant())
        })?;
        let object = Self {
            device: device.clone(),
            pd: pd.hold(),
            kind,
            key: AtomicU32::new(variant.into()),
            capacity,
            range: (AtomicU64::new(0), AtomicU64::new(0)),
            bound: Bound { index: AtomicU32::new(NO_INDEX), used: AtomicBool::new(false), next: Cell::new(None) },
        };
        // From here on dropping the object undoes everything.
        let key = Counted::new(object)?;
        key.create(variant)?;
        Ok(key)
    }

    /// Makes the key: free, with room for its ranges of other keys. PRM: CREATE_MKEY.
    fn create(&self, variant: u8) -> Result<(), Error> {
        const MKC: usize = create_mkey::MKC;
        let mut input = [0; create_mkey::IN_LEN];
        mkc::FREE.at(MKC).set(&mut input, 1);
        mkc::UMR_EN.at(MKC).set(&mut input, 1);
        mkc::LR.at(MKC).set(&mut input, 1);
        mkc::ACCESS_MODE_1_0.at(MKC).set(&mut input, mkc::access_mode::KLMS);
        mkc::EN_RINVAL.at(MKC).set(&mut input, (self.kind != Kind::Window(WindowKind::One)).into());
        mkc::QPN.at(MKC).set(&mut input, mkc::QPN_ANY);
        mkc::MKEY_7_0.at(MKC).set(&mut input, variant.into());
        mkc::PD.at(MKC).set(&mut input, self.pd.0.number());
        mkc::TRANSLATIONS_OCTWORD_SIZE.at(MKC).set(&mut input, umr::octowords(self.capacity));
        let mut out = [0; create_mkey::OUT_LEN];
        self.device.hca().execute(Opcode::CREATE_MKEY, 0, &mut input, &PageList::None, &mut out)?;
        let index = create_mkey::out::MKEY_INDEX.get(&out);
        self.bound.index.store(index, Ordering::Relaxed);
        self.key.store(index << 8 | u32::from(variant), Ordering::Relaxed);
        Ok(())
    }

    /// Takes the key from the device, once, and the window out of the list before anybody else can ask the device for it.
    /// PRM: DESTROY_MKEY.
    fn destroy(&self) -> Result<(), Error> {
        let hca = self.device.hca();
        hca.control.with(|control| {
            let index = self.bound.index.load(Ordering::Relaxed);
            if index != NO_INDEX {
                control.destroy(&hca.hal, Opcode::DESTROY_MKEY, index)?;
                self.bound.index.store(NO_INDEX, Ordering::Relaxed);
                control.forget_window(NonNull::from(&self.bound));
            }
            Ok(())
        })
    }

    /// The whole key, with the variant that was chosen last.
    pub(crate) fn key(&self) -> u32 {
        self.key.load(Ordering::Relaxed)
    }

    fn set_variant(&self, variant: u8) {
        self.key.store(self.key() & !0xff | u32::from(variant), Ordering::Relaxed);
    }

    /// The key that a bind of a window gives: of type 1 another one than before.
    pub(crate) fn next_key(&self) -> u32 {
        match self.kind {
            Kind::Window(WindowKind::One) => self.key() & !0xff | self.key().wrapping_add(1) & 0xff,
            _ => self.key(),
        }
    }

    /// A bind was posted, with this key.
    pub(crate) fn bind_posted(&self, key: u32) {
        self.key.store(key, Ordering::Relaxed);
        self.bound.used.store(true, Ordering::Relaxed);
    }

    /// A registration was posted.
    pub(crate) fn registered(&self, iova: u64, len: u64) {
        self.range.0.store(iova, Ordering::Relaxed);
        self.range.1.store(len, Ordering::Relaxed);
    }
}

impl<H: PciFunction, P: Policy> Drop for Key<H, P> {
    fn drop(&mut self) {
        if let Err(e) = self.destroy() {
            log::debug!("a memory key stays: {e}");
        }
        let bound = NonNull::from(&self.bound);
        self.device.hca().control.with(|control| {
            control.forget_window(bound);
            *self.kind.count(control) -= 1;
        });
    }
}

impl Control {
    /// The variant byte of the next memory key.
    pub(crate) fn next_variant(&mut self) -> u8 {
        self.variant = self.variant.wrapping_add(1);
        self.variant
    }

    /// Takes a window out of the list, if it stands there.
    fn forget_window(&mut self, window: NonNull<Bound>) {
        let mut at = self.windows;
        // SAFETY: windows leave the list before they go, so those in it live; the control lock is held.
        unsafe {
            if at == Some(window) {
                self.windows = window.as_ref().next.get();
                return;
            }
            while let Some(before) = at {
                at = before.as_ref().next.get();
                if at == Some(window) {
                    before.as_ref().next.set(window.as_ref().next.get());
                    return;
                }
            }
        }
    }

    /// How many windows are bound to the region of this key. The device is asked, for it alone knows: binds may be posted
    /// and not done yet, several for one window, and a peer may have invalidated one. PRM: QUERY_MKEY.
    pub(crate) fn windows_bound<H: PciFunction>(&mut self, hal: &H, region: Lkey) -> Result<u32, Error> {
        let (mut count, mut at) = (0, self.windows);
        while let Some(window) = at {
            // SAFETY: windows leave the list before they go; the control lock is held.
            let window = unsafe { window.as_ref() };
            at = window.next.get();
            if !window.used.load(Ordering::Relaxed) {
                continue;
            }
            let (mut input, mut out) = ([0; query_mkey::IN_LEN], [0; query_mkey::OUT_LEN]);
            query_mkey::MKEY_INDEX.set(&mut input, window.index.load(Ordering::Relaxed));
            query_mkey::PG_ACCESS.set(&mut input, 1);
            self.execute(hal, query_mkey::OPCODE, 0, &mut input, &PageList::None, &mut out)?;
            let bound_to = mkc::klm::KEY.at(query_mkey::out::TRANSLATION_0).get(&out);
            if !mkc::FREE.at(query_mkey::out::MKC).is_set(&out) && bound_to == region.0 {
                count += 1;
            }
        }
        Ok(count)
    }
}

impl<H: PciFunction, P: Policy> MemoryWindow for Window<H, P> {
    fn kind(&self) -> WindowKind {
        match self.0.kind {
            Kind::Window(kind) => kind,
            Kind::Region => WindowKind::One,
        }
    }

    fn rkey(&self) -> Rkey {
        Rkey(self.0.key())
    }

    fn set_variant(&mut self, variant: u8) -> Result<(), Error> {
        if self.kind() == WindowKind::One {
            return Err(Error::Unsupported("choosing the key of a window of type 1"));
        }
        self.0.set_variant(variant);
        Ok(())
    }
}

impl<H: PciFunction, P: Policy> bareverbs::FastRegion for FastRegion<H, P> {
    fn lkey(&self) -> Lkey {
        Lkey(self.0.key())
    }

    fn rkey(&self) -> Rkey {
        Rkey(self.0.key())
    }

    fn capacity(&self) -> u32 {
        self.0.capacity
    }

    fn set_variant(&mut self, variant: u8) {
        self.0.set_variant(variant);
    }

    fn sge(&self, range: Range<usize>) -> Result<Sge, Error> {
        let (iova, len) = (self.0.range.0.load(Ordering::Relaxed), self.0.range.1.load(Ordering::Relaxed));
        let length = bareverbs::check_range(&range, usize::try_from(len).unwrap_or(usize::MAX))?;
        // SAFETY: the range lies inside the elements of other regions that were registered, which keep references out.
        Ok(unsafe { Sge::from_raw(iova.wrapping_add(range.start as u64), length, self.lkey()) })
    }
}
