//! Damage that no checksum of the link notices.

use bareverbs::wire::frame::{Frame as View, Link};
use bareverbs_harness::model::LinkKind;

/// Flips one bit of a packet's payload and makes ICRC and VCRC fit again, as a broken switch would. Tells whether the
/// frame had a payload. A `Corruptor` for the harness's fabric.
pub fn payload(link: LinkKind, frame: &mut Vec<u8>, random: u64) -> bool {
    let kind = match link {
        LinkKind::InfiniBand => Link::InfiniBand,
        LinkKind::Ethernet => Link::Ethernet,
    };
    let Ok(view) = View::parse(kind, frame) else { return false };
    if view.payload.is_empty() {
        return false;
    }
    let mut damaged = vec![0; frame.len()];
    let Ok(mut emitter) = view.repr.emit(&mut damaged, view.payload.len()) else { return false };
    let body = emitter.payload();
    body.copy_from_slice(view.payload);
    let bit = (random % (body.len() as u64 * 8)) as usize;
    body[bit / 8] ^= 1 << (bit % 8);
    let len = emitter.finish();
    damaged.truncate(len);
    *frame = damaged;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use bareverbs::wire::{
        bth,
        frame::{Repr, Route},
        lrh,
        opcode::Opcode,
    };

    #[test]
    fn one_bit_and_right_checksums() {
        let bth = bth::Repr { opcode: Opcode::RC_SEND_ONLY, pkey: 0xffff, ..Default::default() };
        let repr = Repr { route: Route::Ib { lrh: lrh::Repr::default(), grh: None }, bth, ext: Default::default() };
        let mut frame = vec![0; 256];
        let mut emitter = repr.emit(&mut frame, 33).unwrap();
        emitter.payload().fill(0x11);
        let len = emitter.finish();
        frame.truncate(len);
        assert!(payload(LinkKind::InfiniBand, &mut frame, 12345));
        let view = View::parse(Link::InfiniBand, &frame).unwrap();
        view.check_icrc().unwrap();
        view.check_vcrc().unwrap();
        assert_eq!(view.payload.iter().map(|b| (b ^ 0x11).count_ones()).sum::<u32>(), 1);
    }
}
