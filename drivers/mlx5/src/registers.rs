//! Register blocks of BAR 0. PRM: "Initialization Segment", "Health Buffer", "UAR Page Format".

use bareverbs_hal::{Bar, Be32, HalError, PciFunction};
use bareverbs_mlx5_prm::registers::{health, init, uar};
use core::mem::offset_of;
use volatile_register::{RO, RW, WO};

/// The initialization segment.
#[repr(C)]
pub(crate) struct InitSegment {
    pub fw_rev: RO<Be32>,
    pub cmdif_rev_fw_sub: RO<Be32>,
    _reserved0: [RO<Be32>; 2],
    pub cmdq_addr_high: RW<Be32>,
    pub cmdq_addr_low: RW<Be32>,
    pub cmd_doorbell: WO<Be32>,
    _reserved1: [RO<Be32>; 120],
    pub initializing: RO<Be32>,
    pub health: HealthBuffer,
    _reserved2: [RO<Be32>; 878],
    pub cmd_exec_timeout: RO<Be32>,
    pub cmd_q_init_timeout: RO<Be32>,
    pub internal_timer_high: RO<Be32>,
    pub internal_timer_low: RO<Be32>,
    _reserved3: [RO<Be32>; 2],
    pub health_counter: RO<Be32>,
}

/// What firmware says about its own end.
#[repr(C)]
pub(crate) struct HealthBuffer {
    pub assert_var: [RO<Be32>; 6],
    _reserved0: [RO<Be32>; 2],
    pub assert_exit_ptr: RO<Be32>,
    pub assert_callra: RO<Be32>,
    _reserved1: RO<Be32>,
    pub time: RO<Be32>,
    pub fw_ver: RO<Be32>,
    pub hw_id: RO<Be32>,
    pub flags: RO<Be32>,
    pub syndrome: RO<Be32>,
}

/// A page of doorbells.
#[repr(C)]
pub(crate) struct UarPage {
    _reserved0: [RO<Be32>; 8],
    pub cq_doorbell: WO<u64>,
    _reserved1: [RO<Be32>; 6],
    pub eq_doorbell_arm: WO<Be32>,
    _reserved2: RO<Be32>,
    pub eq_doorbell: WO<Be32>,
    _reserved3: [RO<Be32>; 493],
    pub blueflame: [BlueFlame; uar::BLUEFLAME_REGISTERS],
}

/// A BlueFlame register: two buffers of equal size, used in turn.
#[repr(C)]
pub(crate) struct BlueFlame {
    pub buffers: [BlueFlameBuffer; 2],
}

/// A BlueFlame buffer: 64 bytes are copied at once.
#[repr(C)]
pub(crate) struct BlueFlameBuffer {
    pub chunks: [[WO<u64>; 8]; uar::BLUEFLAME_BUFFER_SIZE / 64],
}

const _: () = {
    assert!(offset_of!(InitSegment, fw_rev) == init::FW_REV);
    assert!(offset_of!(InitSegment, cmdif_rev_fw_sub) == init::CMDIF_REV_FW_SUB);
    assert!(offset_of!(InitSegment, cmdq_addr_high) == init::CMDQ_ADDR_HIGH);
    assert!(offset_of!(InitSegment, cmdq_addr_low) == init::CMDQ_ADDR_LOW);
    assert!(offset_of!(InitSegment, cmd_doorbell) == init::CMD_DOORBELL);
    assert!(offset_of!(InitSegment, initializing) == init::INITIALIZING_DWORD);
    assert!(offset_of!(InitSegment, health) == init::HEALTH_BUFFER);
    assert!(offset_of!(InitSegment, cmd_exec_timeout) == init::CMD_EXEC_TIMEOUT);
    assert!(offset_of!(InitSegment, cmd_q_init_timeout) == init::CMD_Q_INIT_TIMEOUT);
    assert!(offset_of!(InitSegment, internal_timer_high) == init::INTERNAL_TIMER_HIGH);
    assert!(offset_of!(InitSegment, internal_timer_low) == init::INTERNAL_TIMER_LOW);
    assert!(offset_of!(InitSegment, health_counter) == init::HEALTH_COUNTER_DWORD);
    assert!(size_of::<InitSegment>() == init::SIZE);
    assert!(offset_of!(HealthBuffer, assert_var) == health::ASSERT_VAR);
    assert!(offset_of!(HealthBuffer, assert_exit_ptr) == health::ASSERT_EXIT_PTR.offset());
    assert!(offset_of!(HealthBuffer, assert_callra) == health::ASSERT_CALLRA.offset());
    assert!(offset_of!(HealthBuffer, time) == health::TIME.offset());
    assert!(offset_of!(HealthBuffer, fw_ver) == health::FW_VER.offset());
    assert!(offset_of!(HealthBuffer, hw_id) == health::HW_ID.offset());
    assert!(offset_of!(HealthBuffer, flags) == health::RFR.offset());
    assert!(offset_of!(HealthBuffer, syndrome) == health::SYNDROME.offset());
    assert!(size_of::<HealthBuffer>() == health::SIZE);
    assert!(offset_of!(UarPage, cq_doorbell) == uar::CQ_DOORBELL);
    assert!(offset_of!(UarPage, eq_doorbell_arm) == uar::EQ_DOORBELL_ARM);
    assert!(offset_of!(UarPage, eq_doorbell) == uar::EQ_DOORBELL);
    assert!(offset_of!(UarPage, blueflame) == uar::BLUEFLAME);
    assert!(size_of::<BlueFlame>() == uar::BLUEFLAME_STRIDE && size_of::<UarPage>() == uar::PAGE_SIZE);
};

/// A register block of the function; valid while the HAL handle that it was made from lives.
pub(crate) struct Block<T: 'static>(&'static T);

impl<T> Clone for Block<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Block<T> {}

// SAFETY: registers are reached by volatile accesses only, each atomic for its size.
unsafe impl<T> Send for Block<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Block<T> {}

impl<T> core::ops::Deref for Block<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0
    }
}

/// The initialization segment of BAR 0.
pub(crate) fn init_segment<H: PciFunction>(hal: &H) -> Result<Block<InitSegment>, HalError> {
    // SAFETY: volatile cells only; whoever keeps the block keeps a HAL handle beside it.
    unsafe { hal.bar(0)?.register(0).map(Block) }
}

/// UAR page `number`, through the write-combining window where there is one and `combining` asks for it.
pub(crate) fn uar_page(bar: &Bar, number: u32, combining: bool) -> Result<Block<UarPage>, HalError> {
    let offset = (number as usize).checked_mul(uar::PAGE_SIZE).ok_or(HalError::BadRange)?;
    // SAFETY: volatile cells only; whoever keeps the block keeps a HAL handle beside it.
    unsafe { if combining { bar.wc_register(offset) } else { bar.register(offset) }.map(Block) }
}
