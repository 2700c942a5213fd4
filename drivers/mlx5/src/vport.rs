//! Addresses that an Ethernet port lets in beside its own: the allowed lists of the NIC vport. PRM: "NIC Vport Context".

use crate::{cmd::PageList, control::Control, hca::Caps};
use bareverbs::{Error, Mac};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{modify_nic_vport_context as modify, nic_vport_select},
    context::{
        cmd_hca_cap,
        nic_vport_context::{self, list_type},
    },
};

/// Addresses of a list at most.
const MOST: usize = 64;

/// An address, and how many flow rules and group memberships want it.
#[derive(Clone, Copy)]
struct Wanted {
    mac: Mac,
    by: u32,
}

type List = heapless::Vec<Wanted, MOST>;

/// What the port lets in now.
#[derive(Default)]
pub(crate) struct Addresses {
    unicast: List,
    multicast: List,
}

fn is_multicast(mac: Mac) -> bool {
    mac.0[0] & 1 != 0
}

impl Addresses {
    fn list(&mut self, multicast: bool) -> &mut List {
        if multicast { &mut self.multicast } else { &mut self.unicast }
    }
}

impl Control {
    /// Lets frames to an address in, for one more that wants them. `full` is the error where the list has no place.
    pub(crate) fn let_in<H: PciFunction>(&mut self, hal: &H, caps: &Caps, mac: Mac, full: Error) -> Result<(), Error> {
        let multicast = is_multicast(mac);
        let log = match multicast {
            true => cmd_hca_cap::LOG_MAX_CURRENT_MC_LIST.get(&caps.general),
            false => cmd_hca_cap::LOG_MAX_CURRENT_UC_LIST.get(&caps.general),
        };
        let list = self.addresses.list(multicast);
        if let Some(wanted) = list.iter_mut().find(|wanted| wanted.mac == mac) {
            wanted.by += 1;
            return Ok(());
        }
        if list.len() >= crate::bringup::power(log) as usize || list.push(Wanted { mac, by: 1 }).is_err() {
            return Err(full);
        }
        let result = self.write_list(hal, multicast);
        if result.is_err() {
            self.addresses.list(multicast).pop();
        }
        result
    }

    /// One fewer wants frames to an address. A device that refuses lets them in until it is told the list again.
    pub(crate) fn shut_out<H: PciFunction>(&mut self, hal: &H, mac: Mac) {
        let multicast = is_multicast(mac);
        let list = self.addresses.list(multicast);
        let Some(at) = list.iter().position(|wanted| wanted.mac == mac) else { return };
        if let Some(wanted) = list.get_mut(at).filter(|wanted| wanted.by > 1) {
            wanted.by -= 1;
            return;
        }
        list.swap_remove(at);
        // A device that failed lets nothing in any more.
        if self.fatal().is_none() {
            let told = self.write_list(hal, multicast);
            log::debug!("an address is not let in any more: {told:?}");
        }
    }

    /// Tells the device a whole list. PRM: MODIFY_NIC_VPORT_CONTEXT.
    fn write_list<H: PciFunction>(&mut self, hal: &H, multicast: bool) -> Result<(), Error> {
        const CONTEXT: usize = modify::NIC_VPORT_CONTEXT;
        let list = self.addresses.list(multicast).clone();
        let mut input = [0; modify::IN_LEN];
        modify::FIELD_SELECT.set(&mut input, nic_vport_select::ADDRESSES_LIST);
        let kind = if multicast { list_type::MULTICAST } else { list_type::UNICAST };
        nic_vport_context::ALLOWED_LIST_TYPE.at(CONTEXT).set(&mut input, kind);
        nic_vport_context::ALLOWED_LIST_SIZE.at(CONTEXT).set(&mut input, list.len() as u32);
        // The list follows the context: 8 bytes an address, which stands in the last six.
        let each = |f: &mut dyn FnMut(u64)| {
            for Wanted { mac: Mac([a, b, c, d, e, g]), .. } in &list {
                f(u64::from_be_bytes([0, 0, *a, *b, *c, *d, *e, *g]));
            }
        };
        let entries = PageList::Each { count: list.len(), each: &each };
        self.execute(hal, Opcode::MODIFY_NIC_VPORT_CONTEXT, 0, &mut input, &entries, &mut [0; modify::OUT_LEN])
    }
}
