//! Devices, ports and protection domains.

use super::{Case, Outcome, Stop, lab::Lab, must};
use crate::connect::PORT;
use alloc::{vec, vec::Vec};
use bareverbs::{
    Argument, Destroy, Device, Error, Handle, LinkLayer, Pkey, PortNum, PortState, QpType, SharedReceiveQueue,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must("device_tells_what_it_can", "ibv_query_device", "limits are there and fit together", attributes),
        must("device_guids_differ", "ibv_query_device", "two devices have two node GUIDs", guids),
        must(
            "port_tells_its_state",
            "ibv_query_port",
            "an active port tells MTUs, tables and link layer that fit together",
            port,
        ),
        must("ports_that_are_not_there", "ibv_query_port", "port 0 and ports beyond the count are refused", no_port),
        must(
            "gid_table_ends",
            "ibv_query_gid",
            "every index below the table's length can be read, the one behind it is refused by name",
            gids,
        ),
        must(
            "pkey_table_ends",
            "ibv_query_pkey",
            "index 0 is the default partition here; the index behind the table is refused by name",
            pkeys,
        ),
        must(
            "pd_destroy_refused_while_in_use",
            "ibv_dealloc_pd",
            "a protection domain with a QP, SRQ or region is busy, and goes after them",
            busy_pd,
        ),
        must(
            "device_destroy_refused_while_in_use",
            "ibv_close_device",
            "a device with clones or objects is busy",
            busy_device,
        ),
        must("device_and_pd_through_raw_pointers", "traits", "handles go through raw pointers and back", raw),
        must("time_goes_on", "traits", "the clock never goes back, and relaxing lets it go on", clock),
        must("queries_are_stable", "ibv_query_device", "asked twice a device answers the same", stable),
    ]
}

fn attributes<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for device in &lab.devices {
        let a = device.attributes();
        let counts = [a.max_qp, a.max_qp_wr, a.max_sge, a.max_cq, a.max_cqe, a.max_mr, a.max_pd, a.num_comp_vectors];
        ensure!(counts.iter().all(|n| *n > 0), "a limit is 0: {a:?}");
        ensure!(a.phys_port_cnt > 0 && a.max_pkeys > 0, "no port or no P_Key: {a:?}");
        ensure!(a.max_mr_size > 0 && a.page_size_cap & 4096 != 0, "no regions of 4 KiB pages: {a:?}");
        ensure!(a.max_qp_rd_atom > 0 && a.max_qp_init_rd_atom > 0, "no reads: {a:?}");
        ensure!(a.max_srq == 0 || a.max_srq_wr > 0 && a.max_srq_sge > 0, "SRQs of nothing: {a:?}");
        ensure!(a.has(QpType::Rc) && a.has(QpType::Ud), "no RC or UD: {a:?}");
    }
    Ok(())
}

fn guids<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [a, b] = [lab.devices[0].attributes().node_guid, lab.devices[1].attributes().node_guid];
    ensure!(a != b && a != [0; 8] && b != [0; 8], "GUIDs {a:x?} and {b:x?}");
    Ok(())
}

fn port<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for device in &lab.devices {
        let p = device.query_port(PORT)?;
        ensure_eq!(p.state, PortState::Active, "the state");
        ensure!(p.active_mtu <= p.max_mtu, "MTU {:?} of {:?}", p.active_mtu, p.max_mtu);
        ensure!(p.gid_tbl_len > 0 && p.pkey_tbl_len > 0 && p.max_msg_sz >= 1 << 20, "tables or messages: {p:?}");
        ensure!(p.active_width != 0 && p.active_speed != 0, "width or speed: {p:?}");
        match p.link_layer {
            LinkLayer::InfiniBand => ensure!(p.lid.0 != 0, "no LID: {p:?}"),
            LinkLayer::Ethernet => ensure!(p.lid.0 == 0 && p.mac.0 != [0; 6], "LID or MAC: {p:?}"),
        }
    }
    Ok(())
}

fn no_port<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let device = &lab.devices[0];
    let n = device.attributes().phys_port_cnt;
    for port in [PortNum(0), PortNum(n + 1), PortNum(255)] {
        let error = Error::NoSuchPort(port);
        ensure_eq!(device.query_port(port).map(|_| ()), Err(error), "query_port({port})");
        ensure_eq!(device.query_gid(port, 0), Err(error), "query_gid({port})");
        ensure_eq!(device.query_pkey(port, 0), Err(error), "query_pkey({port})");
        ensure_eq!(device.set_gid(port, 0, &Default::default()), Err(error), "set_gid({port})");
    }
    Ok(())
}

fn gids<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let device = &lab.devices[0];
    let len = device.query_port(PORT)?.gid_tbl_len;
    for index in 0..len.min(256) {
        device.query_gid(PORT, index as u8)?;
    }
    if let Ok(index) = u8::try_from(len) {
        let error = Error::NoSuchIndex { table: Argument::Gid, index: len.into() };
        ensure_eq!(device.query_gid(PORT, index), Err(error), "GID {len}");
    }
    Ok(())
}

fn pkeys<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let device = &lab.devices[0];
    let len = device.query_port(PORT)?.pkey_tbl_len;
    ensure_eq!(device.query_pkey(PORT, 0)?, Pkey::DEFAULT, "P_Key 0");
    device.query_pkey(PORT, len - 1)?;
    let error = Error::NoSuchIndex { table: Argument::Pkey, index: len.into() };
    ensure_eq!(device.query_pkey(PORT, len), Err(error), "P_Key {len}");
    Ok(())
}

fn busy_pd<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let device = lab.devices[0].clone();
    let cq = lab.cq(0, 7)?;
    let mut pd = device.alloc_pd()?;
    let init = bareverbs::SrqAttr { max_wr: 4, max_sge: 1, limit: 0 };
    let mut srq = device.create_srq(&pd, init)?;
    ensure!(srq.query()?.max_wr >= 4, "an SRQ");
    let own = core::mem::replace(&mut lab.pds[0], device.alloc_pd()?);
    let holders = [("an SRQ", 1)];
    for (what, n) in holders {
        pd = match pd.destroy() {
            Ok(()) => return Err(Stop::failed(format_args!("a domain with {what} was destroyed"), line!())),
            Err(refused) => {
                ensure_eq!(refused.error, Error::Busy { holders: n }, "the error with {what}");
                refused.handle
            }
        };
    }
    srq.destroy()?;
    pd.destroy()?;
    lab.pds[0] = own;
    let pd = device.alloc_pd()?;
    let qp_pd = core::mem::replace(&mut lab.pds[0], pd);
    let qp = lab.qp(0, QpType::Ud, [&cq, &cq], None, super::lab::CAP)?;
    let pd = core::mem::replace(&mut lab.pds[0], qp_pd);
    let Err(refused) = pd.destroy() else {
        return Err(Stop::failed(format_args!("a domain with a QP was destroyed"), line!()));
    };
    ensure_eq!(refused.error, Error::Busy { holders: 1 }, "the error with a QP");
    qp.destroy()?;
    Ok(refused.handle.destroy()?)
}

fn busy_device<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let clone = lab.devices[0].clone();
    let Err(refused) = clone.destroy() else {
        return Err(Stop::failed(format_args!("a device with objects was destroyed"), line!()));
    };
    ensure!(matches!(refused.error, Error::Busy { holders: 1.. }), "the error: {}", refused.error);
    drop(refused.handle);
    // It goes on.
    lab.cq(0, 1)?;
    Ok(())
}

fn raw<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let raw = lab.devices[0].clone().into_raw();
    // SAFETY: came from `into_raw` just now.
    let device = unsafe { D::from_raw(raw) };
    let pd = device.alloc_pd()?.into_raw();
    // SAFETY: as above.
    let pd = unsafe { D::Pd::from_raw(pd) };
    device.create_srq(&pd, bareverbs::SrqAttr { max_wr: 1, max_sge: 1, limit: 0 })?.destroy()?;
    Ok(pd.destroy()?)
}

fn clock<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let begin = lab.devices[0].now();
    let mut last = begin;
    for _ in 0..1000 {
        lab.devices[0].relax();
        let now = lab.devices[0].now();
        ensure!(now >= last, "{now:?} after {last:?}");
        last = now;
    }
    ensure!(last > begin, "it stands still at {last:?}");
    Ok(())
}

fn stable<D: Device>(lab: &mut Lab<D>) -> Outcome {
    use alloc::format;
    let device = &lab.devices[0];
    ensure_eq!(format!("{:?}", device.attributes()), format!("{:?}", device.attributes()), "attributes");
    let [a, b] = [device.query_port(PORT)?, device.query_port(PORT)?];
    ensure_eq!(format!("{a:?}"), format!("{b:?}"), "the port");
    Ok(())
}
