//! Fast registration: regions that a request makes of elements of others.

use super::{
    Case, Outcome, Stop,
    lab::{End, Lab},
    may,
    windows::{SIGNALED, WRITE, again, local, refused, success, world, write},
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    Access, Argument, Destroy, Device, Error, FastInit, FastRegion, MemoryRegion, Object, PostError, QueuePair, RecvWr,
    Rkey, SendOp, SendWr, WcOpcode, WcStatus,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        may(
            "fast_region_joins_elements",
            "IBA 11.4.2; Linux ib_map_mr_sg",
            "peers and local requests see the elements one behind the other, at the address chosen",
            joins,
        ),
        may(
            "fast_region_lives_from_registration_to_invalidation",
            "IBA 10.6.3.3",
            "it is worthless before, after, and with the variant of another time",
            lifetime,
        ),
        may(
            "fast_region_registered_twice",
            "IBA 11.4.2",
            "one that is valid cannot be registered: a bind error",
            registered_twice,
        ),
        may(
            "fast_region_rights",
            "IBA 10.6.3.1",
            "it gives the rights that it was registered with, whatever its elements' regions give to peers",
            fast_rights,
        ),
        may("fast_region_invalidated_by_the_peer", "ibv_post_send", "a peer may give it back", fast_remote),
        may(
            "fast_region_arguments",
            "Linux ib_alloc_mr",
            "too many elements, none, and more bytes than addresses are refused by name",
            fast_arguments,
        ),
        may(
            "fast_region_over_a_region_that_went",
            "ibv_dereg_mr",
            "what lay in a deregistered region is out of reach, the rest is not",
            fast_without_region,
        ),
    ]
}

/// Registers, and polls the completion.
fn register<D: Device>(
    lab: &Lab<D>,
    end: &mut End<D>,
    region: &mut D::FastRegion,
    init: &FastInit<'_>,
) -> Outcome<Rkey> {
    let rkey = end.qp.push_register(region, init, 93, SIGNALED)?;
    end.qp.ring_send();
    let done = lab.one(&mut end.send_cq)?;
    ensure_eq!((done.wr_id, done.status, done.opcode), (93, WcStatus::Success, WcOpcode::RegisterRegion), "it");
    ensure_eq!((region.rkey(), region.lkey().0), (rkey, rkey.0), "the keys");
    Ok(rkey)
}

fn joins<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let other = lab.mr_with(1, 4096, Access::LOCAL_WRITE)?;
    let mut region = lab.devices[1].alloc_fast_region(&lab.pds[1], 6)?;
    ensure!(region.capacity() >= 6, "room for {} elements", region.capacity());
    let elements = [mr.sge(5000..5003)?, other.sge(10..2010)?, mr.sge(0..0)?, mr.sge(0..1)?, other.sge(3000..4096)?];
    let iova = 0x7_0000_0123;
    let access = Access::LOCAL_WRITE | WRITE | Access::REMOTE_READ;
    let rkey = register(lab, &mut ends[1], &mut region, &FastInit { elements: &elements, iova, access })?;
    let len = 3 + 2000 + 1 + 1096;
    let text: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
    ends[0].mr.write(0, &text)?;
    success(lab, &mut ends[0], write(iova, rkey), len, "a write over all of it")?;
    let mut bytes = vec![0; len];
    mr.read(5000, &mut bytes[..3])?;
    other.read(10, &mut bytes[3..2003])?;
    mr.read(0, &mut bytes[2003..2004])?;
    other.read(3000, &mut bytes[2004..])?;
    ensure!(bytes == text, "the bytes are not where the elements are");
    // Locally too: it sends what lies across the first elements, and receives there.
    ends[0].recv(4, 8192..8192 + 100)?;
    ends[1].qp.post_send([SendWr::new(SendOp::Send, &[region.sge(1..101)?]).signaled()])?;
    ensure_eq!(lab.one(&mut ends[1].send_cq)?.status, WcStatus::Success, "a send from it");
    lab.one(&mut ends[0].recv_cq)?;
    ensure!(ends[0].bytes(8192..8292)? == text[1..101], "what was sent from it is wrong");
    ends[1].qp.post_recv([RecvWr::new(5, &[region.sge(0..100)?])])?;
    success(lab, &mut ends[0], SendOp::Send, 100, "a send into it")?;
    ensure_eq!(lab.one(&mut ends[1].recv_cq)?.status, WcStatus::Success, "a receive into it");
    let beyond = Error::OutOfRange { what: Argument::RegionOffset, wanted: len as u64 + 1, max: len as u64 };
    ensure_eq!(region.sge(0..len + 1), Err(beyond), "an element beyond it");
    success(lab, &mut ends[0], SendOp::Read { addr: iova + len as u64 - 8, rkey }, 8, "its end")?;
    refused(lab, &mut ends, write(iova + len as u64 - 7, rkey), "a byte behind")?;
    refused(lab, &mut ends, write(iova - 1, rkey), "a byte before")
}

fn lifetime<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut region = lab.devices[1].alloc_fast_region(&lab.pds[1], 1)?;
    let iova = 0x1000;
    refused(lab, &mut ends, write(iova, region.rkey()), "before")?;
    let mut keys = Vec::new();
    for variant in [1, 2, 0xff] {
        region.set_variant(variant);
        let elements = [mr.sge(64 * variant as usize..64 * variant as usize + 64)?];
        let rkey = register(
            lab,
            &mut ends[1],
            &mut region,
            &FastInit { elements: &elements, iova, access: WRITE | Access::LOCAL_WRITE },
        )?;
        ensure_eq!(rkey.0 & 0xff, u32::from(variant), "the variant");
        success(lab, &mut ends[0], write(iova, rkey), 8, "while it is valid")?;
        if let Some(before) = keys.last() {
            refused(lab, &mut ends, write(iova, *before), "the key of the time before")?;
        }
        local(lab, &mut ends[1], rkey)?;
        refused(lab, &mut ends, write(iova, rkey), "after it was invalidated")?;
        keys.push(rkey);
    }
    region.destroy()?;
    refused(lab, &mut ends, write(iova, keys[0]), "destroyed")
}

fn registered_twice<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut region = lab.devices[1].alloc_fast_region(&lab.pds[1], 1)?;
    let init = FastInit { elements: &[mr.sge(0..64)?], iova: 0, access: WRITE | Access::LOCAL_WRITE };
    let rkey = register(lab, &mut ends[1], &mut region, &init)?;
    ends[1].qp.push_register(&mut region, &init, 7, SIGNALED)?;
    ends[1].qp.ring_send();
    let done = lab.one(&mut ends[1].send_cq)?;
    ensure_eq!((done.wr_id, done.status), (7, WcStatus::MemoryWindowBind), "the second");
    again(lab, &mut ends)?;
    success(lab, &mut ends[0], write(0, rkey), 8, "the first goes on")
}

fn fast_rights<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut region = lab.devices[1].alloc_fast_region(&lab.pds[1], 1)?;
    let elements = [mr.sge(0..64)?];
    for access in [Access::LOCAL_WRITE | WRITE, Access::REMOTE_READ, Access::LOCAL_WRITE] {
        let rkey = register(lab, &mut ends[1], &mut region, &FastInit { elements: &elements, iova: 0, access })?;
        for (op, needs) in [(SendOp::Read { addr: 0, rkey }, Access::REMOTE_READ), (write(0, rkey), WRITE)] {
            match access.contains(needs) {
                true => success(lab, &mut ends[0], op, 8, "with the right")?,
                false => refused(lab, &mut ends, op, "without the right")?,
            }
        }
        local(lab, &mut ends[1], rkey)?;
    }
    Ok(())
}

fn fast_remote<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut region = lab.devices[1].alloc_fast_region(&lab.pds[1], 1)?;
    let init = FastInit { elements: &[mr.sge(0..64)?], iova: 0, access: WRITE | Access::LOCAL_WRITE };
    let rkey = register(lab, &mut ends[1], &mut region, &init)?;
    ends[1].recv(1, 0..64)?;
    success(lab, &mut ends[0], SendOp::SendInvalidate(rkey), 8, "the send")?;
    ensure_eq!(lab.one(&mut ends[1].recv_cq)?.invalidated(), Some(rkey), "the key");
    refused(lab, &mut ends, write(0, rkey), "afterwards")?;
    register(lab, &mut ends[1], &mut region, &init)?;
    success(lab, &mut ends[0], write(0, rkey), 8, "registered anew")
}

fn fast_arguments<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let max = lab.devices[1].attributes().max_fast_reg_elements;
    for elements in [0, max + 1] {
        let result = lab.devices[1].alloc_fast_region(&lab.pds[1], elements).map(|_| ());
        let error = Error::OutOfRange { what: Argument::FastElements, wanted: elements.into(), max: max.into() };
        match result {
            Err(Error::Unsupported(what)) => return Err(Stop::Unsupported(what)),
            result => ensure_eq!(result, Err(error), "{elements} elements"),
        }
    }
    let mut region = lab.devices[1].alloc_fast_region(&lab.pds[1], max)?;
    let capacity = region.capacity();
    let one = mr.sge(0..8)?;
    let many = vec![one; capacity as usize + 1];
    let access = Access::empty();
    for (elements, iova, error) in [
        (&many[..], 0, PostError::TooManySge { max: capacity }),
        (&[], 0, PostError::NoSuchRange),
        (&[mr.sge(0..0)?], 0, PostError::NoSuchRange),
        (&[one], u64::MAX - 6, PostError::NoSuchRange),
    ] {
        let result = ends[1].qp.push_register(&mut region, &FastInit { elements, iova, access }, 0, SIGNALED);
        ensure_eq!(result, Err(error), "{} elements at {iova:#x}", elements.len());
    }
    register(lab, &mut ends[1], &mut region, &FastInit { elements: &many[1..], iova: 0, access })?;
    let mut foreign = lab.devices[0].alloc_fast_region(&lab.pds[0], 1)?;
    let init = FastInit { elements: &[one], iova: 0, access };
    let result = ends[1].qp.push_register(&mut foreign, &init, 0, SIGNALED);
    ensure_eq!(result, Err(PostError::Foreign(Object::FastRegion)), "of the other device");
    Ok(())
}

fn fast_without_region<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let other = lab.mr_with(1, 4096, Access::LOCAL_WRITE)?;
    let mut region = lab.devices[1].alloc_fast_region(&lab.pds[1], 2)?;
    let elements = [mr.sge(0..64)?, other.sge(0..64)?];
    let access = Access::LOCAL_WRITE | WRITE;
    let rkey = register(lab, &mut ends[1], &mut region, &FastInit { elements: &elements, iova: 0, access })?;
    success(lab, &mut ends[0], write(60, rkey), 8, "over both")?;
    other.deregister()?;
    success(lab, &mut ends[0], write(0, rkey), 8, "in the one that is there")?;
    refused(lab, &mut ends, write(60, rkey), "in the one that went")
}
