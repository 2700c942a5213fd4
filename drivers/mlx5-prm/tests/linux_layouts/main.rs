//! Every field of every command and context against Linux's layout of it.
//!
//! The right-hand sides come from a C program that was compiled against Linux 6.1's
//! `include/linux/mlx5/mlx5_ifc.h` and printed, by the arithmetic of `MLX5_SET` in `device.h`, which
//! dword a field of all ones lands in and what that dword then holds (as a number read from
//! big-endian bytes), and, for what is no number, the `offsetof` in bytes. They are data: nothing in
//! this crate computed them.

mod capabilities;
mod contexts;
mod device_commands;
mod ethernet;
mod object_commands;

use bareverbs_mlx5_prm::field::{Bytes, Field, Field64};

/// Where the ones of a field land.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Bits { offset: usize, dword: u32 },
    Qword { offset: usize },
    Bytes { offset: usize, len: usize },
    Base { offset: usize },
}

fn bits(offset: usize, dword: u32) -> Place {
    Place::Bits { offset, dword }
}

fn qword(offset: usize) -> Place {
    Place::Qword { offset }
}

fn bytes(offset: usize, len: usize) -> Place {
    Place::Bytes { offset, len }
}

/// A nested structure, an array, or a size.
fn base(offset: usize) -> Place {
    Place::Base { offset }
}

/// The one run of bytes that a write changes in a buffer of zeros.
fn written(write: impl FnOnce(&mut [u8])) -> (usize, Vec<u8>) {
    let mut buf = [0; 0x1000];
    write(&mut buf);
    let first = buf.iter().position(|byte| *byte != 0).expect("something is written");
    let last = buf.iter().rposition(|byte| *byte != 0).expect("something is written");
    (first, buf[first..=last].to_vec())
}

impl From<Field> for Place {
    fn from(field: Field) -> Self {
        let (first, run) = written(|buf| field.set(buf, field.max()));
        let offset = first / 4 * 4;
        let mut dword = [0; 4];
        dword[first - offset..][..run.len()].copy_from_slice(&run);
        let mut buf = vec![0; offset];
        buf.extend(dword);
        assert_eq!(field.get(&buf), field.max(), "what was written is read back");
        bits(offset, u32::from_be_bytes(dword))
    }
}

impl From<Field64> for Place {
    fn from(field: Field64) -> Self {
        let (offset, run) = written(|buf| field.set(buf, u64::MAX));
        assert_eq!(run, [0xff; 8]);
        qword(offset)
    }
}

impl From<Bytes> for Place {
    fn from(field: Bytes) -> Self {
        let (offset, run) = written(|buf| field.set(buf, &vec![0xff; field.len()]));
        bytes(offset, run.len())
    }
}

impl From<usize> for Place {
    fn from(offset: usize) -> Self {
        base(offset)
    }
}

/// One test a structure: each constant of the named modules lies where the list says.
macro_rules! layout {
    ($test:ident: $($module:path { $($name:ident = $place:expr),* $(,)? })*) => {
        #[test]
        fn $test() {
            $({
                use $module as table;
                $(assert_eq!($crate::Place::from(table::$name), $place, stringify!($name));)*
            })*
        }
    };
}
use layout;

/// Values that the header splits and this crate also offers whole lie where their parts lie.
#[test]
fn values_of_two_parts() {
    use bareverbs_mlx5_prm::context::{ads, mkc, nic_vport_context, roce, xrc_srqc};
    assert_eq!(Place::from(ads::RMAC), bytes(0x26, 6));
    assert_eq!(Place::from(roce::roce_addr_layout::SOURCE_MAC), bytes(0x12, 6));
    assert_eq!(Place::from(nic_vport_context::PERMANENT_MAC), bytes(0xf6, 6));
    assert_eq!(Place::from(xrc_srqc::DBR_ADDR), qword(0x28));
    assert_eq!(Place::from(mkc::QPN_MKEY_7_0), bits(0x04, 0xffff_ffff));
    // `qp.h`: struct mlx5_klm.
    assert_eq!(Place::from(mkc::klm::BYTE_COUNT), bits(0x00, 0xffff_ffff));
    assert_eq!(Place::from(mkc::klm::KEY), bits(0x04, 0xffff_ffff));
    assert_eq!(Place::from(mkc::klm::ADDRESS), qword(0x08));
}
