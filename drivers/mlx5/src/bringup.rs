//! From reset to ready. The steps stand in the order of the PRM's chapter "HCA initialization".

use crate::{
    cmd::{CommandQueue, PageList},
    config::Config,
    control::{Control, MAX_EQS},
    eq::{ASYNC_EVENTS, EventQueue},
    error::platform,
    hca::{Caps, Hca, InlineMode, Limits},
    health::firmware,
    policy::{Guards, Lock, Policy},
    port,
    registers::{Block, InitSegment, init_segment},
    uar::Uar,
    users::Users,
    watch::Watches,
};
use bareverbs::{DeviceAttr, Error, LinkLayer, Mtu};
use bareverbs_hal::{PAGE_SIZE, PciFunction};
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{
        access_reg, access_reg_op_mod, alloc_uar, create_eq, enable_hca, hca_cap_op_mod, host_endianness, init_hca,
        modify_nic_vport_context, nic_vport_select, query_hca_cap, query_issi, query_pages, query_pages_op_mod,
        register, set_hca_cap, set_issi,
    },
    context::{
        atomic_caps,
        cmd_hca_cap::{self, cmdif_checksum, port_type},
        eth_caps, nic_vport_context,
        roce::{roce_cap, version},
    },
    ids,
    registers::{CMD_INTERFACE_REV, init},
};
use core::mem::ManuallyDrop;

/// A capability structure as QUERY_HCA_CAP answers and SET_HCA_CAP takes it: 16 bytes of header, then the structure.
struct CapBuffer([u8; CapBuffer::LEN]);

impl CapBuffer {
    const LEN: usize = query_hca_cap::OUT_LEN;
    const HEADER: usize = query_hca_cap::out::CAPABILITY;

    fn structure(&mut self) -> &mut [u8] {
        &mut self.0[Self::HEADER..]
    }
}

const _: () = assert!(CapBuffer::LEN == set_hca_cap::IN_LEN && CapBuffer::HEADER == set_hca_cap::CAPABILITY);

/// Brings the function up. On an error everything is undone, and all memory given back.
pub(crate) fn open<H: PciFunction, P: Policy>(hal: H, config: &Config) -> Result<Hca<H, P>, Error> {
    let id = hal.config_read32(0);
    let device = ids::find(id as u16, (id >> 16) as u16).ok_or(Error::Unsupported("PCI id of another device"))?;
    hal.set_dma_bits(64).map_err(platform)?;
    let registers = init_segment(&hal).map_err(platform)?;
    let users = Users::new(&hal, config.max_qps.saturating_add(config.max_srqs))?;
    let watches = match Watches::new(&hal) {
        Ok(watches) => watches,
        Err(e) => {
            users.free(&hal);
            return Err(e);
        }
    };
    let cmd = match start_commands(&hal, registers, config) {
        Ok(cmd) => cmd,
        Err(e) => {
            users.free(&hal);
            watches.free(&hal);
            return Err(e);
        }
    };
    let mut control = Control::new(&hal, registers, cmd, watches, config.health_period, config.reclaim_timeout);
    match (BringUp { hal: &hal, control: &mut control, config, vf: device.vf }).run() {
        Ok((uar, caps, mut attr)) => {
            attr.vendor_id = id & 0xffff;
            attr.vendor_part_id = id >> 16;
            attr.hw_ver = hal.config_read32(8) & 0xff;
            log::debug!("{} {} is ready after {} commands", device.name, hal.address(), control.commands());
            let control = <P as Guards>::Lock::new(control);
            let mark = mark(&hal);
            Ok(Hca { hal, control, uar, mark, caps, attr, config: *config, users: ManuallyDrop::new(users) })
        }
        Err(e) => {
            log::debug!("{} {}: {e}", device.name, hal.address());
            control.close(&hal);
            // SAFETY: once; there is no object yet.
            unsafe { control.free_watches(&hal) };
            users.free(&hal);
            Err(e)
        }
    }
}

/// Gets the command queue's memory, lets the function reach it, and waits for firmware.
fn start_commands<H: PciFunction>(
    hal: &H,
    registers: Block<InitSegment>,
    config: &Config,
) -> Result<CommandQueue, Error> {
    let mut cmd = CommandQueue::new(hal, registers, config.command_timeout)?;
    // SAFETY: the driver owns the function. Who ran it before tore it down or reset it, and it is told of memory by the
    // commands to come only.
    let mastered = unsafe { hal.set_bus_master(true) };
    let result = mastered.map_err(platform).and_then(|()| {
        let interface = hal.read32(&registers.cmdif_rev_fw_sub) >> 16;
        if interface != CMD_INTERFACE_REV {
            return Err(Error::Unsupported("revision of the command interface"));
        }
        wait_initializing(hal, &registers, config)?;
        cmd.attach(hal)?;
        // Reads of the same register push the address out, and show whether firmware takes it.
        wait_initializing(hal, &registers, config)
    });
    if let Err(e) = result {
        let silent = hal.silence().is_ok() || hal.reset().is_ok();
        if silent {
            // SAFETY: the function cannot reach memory any more.
            unsafe { cmd.free(hal) };
        }
        return Err(e);
    }
    Ok(cmd)
}

/// Waits until firmware is ready for commands.
fn wait_initializing<H: PciFunction>(hal: &H, registers: &Block<InitSegment>, config: &Config) -> Result<(), Error> {
    let deadline = hal.now().saturating_add(config.init_timeout);
    loop {
        match hal.read32(&registers.initializing) {
            u32::MAX => return Err(platform(bareverbs_hal::HalError::Gone)),
            v if v & init::INITIALIZING.mask() == 0 => return Ok(()),
            _ if hal.now() >= deadline => return Err(Error::NotReady("firmware still initializes")),
            _ => hal.relax(),
        }
    }
}

struct BringUp<'a, H: PciFunction> {
    hal: &'a H,
    control: &'a mut Control,
    config: &'a Config,
    vf: bool,
}

impl<H: PciFunction> BringUp<'_, H> {
    fn run(&mut self) -> Result<(Uar, Caps, DeviceAttr), Error> {
        self.enable_hca()?;
        self.choose_issi()?;
        self.give_pages(query_pages_op_mod::BOOT)?;
        if !self.vf {
            self.set_host_endianness()?;
        }
        let mut caps = self.general_caps()?;
        self.atomic_caps(&mut caps)?;
        self.roce_caps(&mut caps)?;
        self.give_pages(query_pages_op_mod::INIT)?;
        self.init_hca()?;
        let uar = self.alloc_uar(&caps)?;
        self.create_eqs(&mut caps)?;
        if caps.link == LinkLayer::Ethernet {
            self.enable_roce()?;
            caps.inline = self.inline_mode(&caps)?;
        }
        (caps.max_mtu, caps.max_frame) = port::limits(self.hal, self.control, &caps)?;
        let attr = self.attributes(&caps)?;
        Ok((uar, caps, attr))
    }

    fn execute(&mut self, opcode: Opcode, op_mod: u32, input: &mut [u8], out: &mut [u8]) -> Result<(), Error> {
        self.control.execute(self.hal, opcode, op_mod, input, &PageList::None, out)
    }

    fn enable_hca(&mut self) -> Result<(), Error> {
        self.execute(Opcode::ENABLE_HCA, 0, &mut [0; enable_hca::IN_LEN], &mut [0; enable_hca::OUT_LEN])?;
        self.control.enabled = true;
        Ok(())
    }

    /// Interface step sequence id 1 is the interface that the PRM describes; 0 is the one before it.
    fn choose_issi(&mut self) -> Result<(), Error> {
        let mut out = [0; query_issi::OUT_LEN];
        self.execute(Opcode::QUERY_ISSI, 0, &mut [0; query_issi::IN_LEN], &mut out)?;
        if query_issi::out::SUPPORTED_ISSI_DW0.get(&out) & 1 << 1 == 0 {
            return Err(Error::Unsupported("interface step sequence id 1"));
        }
        let mut input = [0; set_issi::IN_LEN];
        set_issi::CURRENT_ISSI.set(&mut input, 1);
        self.execute(Opcode::SET_ISSI, 0, &mut input, &mut [0; set_issi::OUT_LEN])
    }

    /// Gives the pages that firmware wants for its next step; a negative number is no request.
    fn give_pages(&mut self, op_mod: u32) -> Result<(), Error> {
        let mut out = [0; query_pages::OUT_LEN];
        self.execute(Opcode::QUERY_PAGES, op_mod, &mut [0; query_pages::IN_LEN], &mut out)?;
        let wanted = query_pages::out::NUM_PAGES.get(&out) as i32;
        self.control.function = query_pages::out::FUNCTION_ID.get(&out) as u16;
        log::debug!("firmware wants {wanted} pages (op_mod {op_mod})");
        let function = self.control.function;
        self.control.give_pages(self.hal, function, wanted.max(0) as u32, false)
    }

    fn set_host_endianness(&mut self) -> Result<(), Error> {
        let mut input = [0; access_reg::IN_LEN + host_endianness::SIZE];
        access_reg::REGISTER_ID.set(&mut input, register::HOST_ENDIANNESS);
        host_endianness::HE.at(access_reg::REGISTER_DATA).set(&mut input, cfg!(target_endian = "big").into());
        let mut out = [0; access_reg::OUT_LEN + host_endianness::SIZE];
        self.execute(Opcode::ACCESS_REG, access_reg_op_mod::WRITE, &mut input, &mut out)
    }

    /// Reads a capability structure.
    fn query_caps(&mut self, which: u32, buffer: &mut CapBuffer) -> Result<(), Error> {
        self.execute(Opcode::QUERY_HCA_CAP, which, &mut [0; query_hca_cap::IN_LEN], &mut buffer.0)
    }

    /// Puts a capability structure in force.
    fn set_caps(&mut self, which: u32, buffer: &mut CapBuffer) -> Result<(), Error> {
        buffer.0[..CapBuffer::HEADER].fill(0);
        self.execute(Opcode::SET_HCA_CAP, which, &mut buffer.0, &mut [0; set_hca_cap::OUT_LEN])
    }

    /// Starts from what is in force, wishes for what this driver needs, and never for more than there is.
    fn general_caps(&mut self) -> Result<Caps, Error> {
        use cmd_hca_cap as cap;
        let mut buffer = CapBuffer([0; CapBuffer::LEN]);
        self.query_caps(hca_cap_op_mod::GENERAL | hca_cap_op_mod::MAX, &mut buffer)?;
        let mut max = [0; cap::SIZE];
        max.copy_from_slice(&buffer.structure()[..cap::SIZE]);
        self.query_caps(hca_cap_op_mod::GENERAL | hca_cap_op_mod::CURRENT, &mut buffer)?;

        let set = buffer.structure();
        // UARs of 4 KiB.
        cap::LOG_UAR_PAGE_SZ.set(set, 0);
        // Room for the device's own QPs beside the user's.
        let log_qps = ceil_log2(self.config.max_qps.saturating_add(64));
        cap::LOG_MAX_QP.set(set, log_qps.min(cap::LOG_MAX_QP.get(&max)));
        let sign = self.config.signatures && cap::CMDIF_CHECKSUM.get(&max) == cmdif_checksum::ENABLED;
        cap::CMDIF_CHECKSUM.set(set, if sign { cmdif_checksum::ENABLED } else { cmdif_checksum::DISABLED });
        if cap::ROCE_RW_SUPPORTED.is_set(set) && cap::ROCE.is_set(&max) {
            cap::ROCE.set(set, 1);
        }
        let mut general = [0; cap::SIZE];
        general.copy_from_slice(&set[..cap::SIZE]);
        self.set_caps(hca_cap_op_mod::GENERAL, &mut buffer)?;
        if sign {
            self.control.verify_signatures();
        }

        let most = |log: bareverbs_mlx5_prm::field::Field, wanted: u32| wanted.min(power(log.get(&general)));
        let limits = Limits {
            qps: most(cap::LOG_MAX_QP, self.config.max_qps),
            cqs: most(cap::LOG_MAX_CQ, self.config.max_cqs),
            srqs: most(cap::LOG_MAX_SRQ, self.config.max_srqs),
            pds: most(cap::LOG_MAX_PD, self.config.max_pds),
            xrcds: if cap::XRC.is_set(&general) { most(cap::LOG_MAX_XRCD, self.config.max_xrcds) } else { 0 },
            regions: most(cap::LOG_MAX_MKEY, self.config.max_regions),
            windows: most(cap::LOG_MAX_MKEY, self.config.max_windows),
            vectors: 0,
        };
        let link = match cap::PORT_TYPE.get(&general) {
            port_type::INFINIBAND => LinkLayer::InfiniBand,
            port_type::ETHERNET => LinkLayer::Ethernet,
            _ => return Err(Error::Unsupported("type of the port")),
        };
        if link == LinkLayer::InfiniBand && !cap::IB_VIRT.is_set(&general) {
            return Err(Error::Unsupported("InfiniBand without vport commands"));
        }
        if cap::CQE_VERSION.get(&general) == 0 {
            return Err(Error::Unsupported("CQEs without a user index"));
        }
        Ok(Caps {
            general,
            link,
            gids: 8 << cap::GID_TABLE_SIZE.get(&general).min(4),
            pkeys: 128 << cap::PKEY_TABLE_SIZE.get(&general).min(5),
            roce_v2: false,
            max_mtu: Mtu::default(),
            max_frame: 0,
            inline: InlineMode::None,
            atomics: false,
            limits,
        })
    }

    /// Lets 8-byte atomics bring their answers in the host's byte order.
    fn atomic_caps(&mut self, caps: &mut Caps) -> Result<(), Error> {
        use atomic_caps as cap;
        if !cmd_hca_cap::ATOMIC.is_set(&caps.general) {
            return Ok(());
        }
        let mut buffer = CapBuffer([0; CapBuffer::LEN]);
        self.query_caps(hca_cap_op_mod::ATOMIC | hca_cap_op_mod::CURRENT, &mut buffer)?;
        let set = buffer.structure();
        let both = cap::operations::CMP_SWAP | cap::operations::FETCH_ADD;
        let enough = cap::ATOMIC_OPERATIONS.get(set) & both == both && cap::ATOMIC_SIZE_QP.get(set) & 1 << 3 != 0;
        let host_order = cap::ATOMIC_REQ_8B_ENDIANNESS_MODE.get(set) == 1;
        let can = cap::SUPPORTED_ATOMIC_REQ_8B_ENDIANNESS_MODE_1.is_set(set);
        if enough && !host_order && can {
            cap::ATOMIC_REQ_8B_ENDIANNESS_MODE.set(set, 1);
            self.set_caps(hca_cap_op_mod::ATOMIC, &mut buffer)?;
        }
        caps.atomics = enough && (host_order || can);
        Ok(())
    }

    /// What RoCE can do; lets software choose the UDP source port.
    fn roce_caps(&mut self, caps: &mut Caps) -> Result<(), Error> {
        use roce_cap as cap;
        if caps.link != LinkLayer::Ethernet {
            return Ok(());
        }
        if !cmd_hca_cap::ROCE.is_set(&caps.general) {
            return Err(Error::Unsupported("RoCE"));
        }
        let mut buffer = CapBuffer([0; CapBuffer::LEN]);
        self.query_caps(hca_cap_op_mod::ROCE | hca_cap_op_mod::MAX, &mut buffer)?;
        let can_choose = cap::SW_R_ROCE_SRC_UDP_PORT.is_set(buffer.structure());
        self.query_caps(hca_cap_op_mod::ROCE | hca_cap_op_mod::CURRENT, &mut buffer)?;
        let set = buffer.structure();
        caps.roce_v2 = cap::ROCE_VERSION.get(set) & 1 << version::V2 != 0;
        caps.gids = cap::ROCE_ADDRESS_TABLE_SIZE.get(set) as u16;
        if can_choose && !cap::SW_R_ROCE_SRC_UDP_PORT.is_set(set) {
            cap::SW_R_ROCE_SRC_UDP_PORT.set(set, 1);
            self.set_caps(hca_cap_op_mod::ROCE, &mut buffer)?;
        }
        Ok(())
    }

    fn init_hca(&mut self) -> Result<(), Error> {
        self.execute(Opcode::INIT_HCA, 0, &mut [0; init_hca::IN_LEN], &mut [0; init_hca::OUT_LEN])?;
        self.control.initialized = true;
        Ok(())
    }

    fn alloc_uar(&mut self, caps: &Caps) -> Result<Uar, Error> {
        let mut out = [0; alloc_uar::OUT_LEN];
        self.execute(Opcode::ALLOC_UAR, 0, &mut [0; alloc_uar::IN_LEN], &mut out)?;
        let uar = Uar::new(self.hal, alloc_uar::out::UAR.get(&out), cmd_hca_cap::BF.is_set(&caps.general))?;
        self.control.uar = Some(uar);
        Ok(uar)
    }

    /// One queue for asynchronous events and page requests, one a completion vector. The first is deep enough for all that
    /// can happen while nobody looks: a QP is connected, fails and leaves its SRQ, and its CQ fails; the others for two
    /// events of every CQ.
    fn create_eqs(&mut self, caps: &mut Caps) -> Result<(), Error> {
        let max = match cmd_hca_cap::MAX_NUM_EQS.get(&caps.general) {
            0 => power(cmd_hca_cap::LOG_MAX_EQ.get(&caps.general)),
            n => n,
        };
        let vectors = self.config.completion_vectors.clamp(1, MAX_EQS as u32 - 1).min(max.saturating_sub(1));
        if vectors == 0 {
            return Err(Error::Unsupported("two event queues"));
        }
        let log_max = cmd_hca_cap::LOG_MAX_EQ_SZ.get(&caps.general);
        let log_objects = ceil_log2(caps.limits.qps.max(caps.limits.cqs));
        self.create_eq((log_objects + 2).max(10).min(log_max), ASYNC_EVENTS)?;
        let log_entries = (ceil_log2(caps.limits.cqs) + 1).max(6).min(log_max);
        for _ in 0..vectors {
            self.create_eq(log_entries, 0)?;
        }
        caps.limits.vectors = vectors;
        Ok(())
    }

    fn create_eq(&mut self, log_entries: u32, events: u64) -> Result<(), Error> {
        let uar = self.control.uar.map_or(0, |uar| uar.number);
        let eq = EventQueue::new(self.hal, log_entries)?;
        let mut input = eq.context(uar, events);
        let (addr, count) = eq.pages();
        // It stands in the list before the device knows of it, so that its memory outlives a command without answer.
        if let Err(eq) = self.control.eqs.push(eq) {
            // SAFETY: the device was not told of it.
            unsafe { eq.free(self.hal) };
            return Err(Error::Unsupported("so many event queues"));
        }
        let pages = PageList::Contiguous { addr, count, log_page: PAGE_SIZE.trailing_zeros() };
        let mut out = [0; create_eq::OUT_LEN];
        self.control.execute(self.hal, Opcode::CREATE_EQ, 0, &mut input, &pages, &mut out)?;
        if let Some(eq) = self.control.eqs.last_mut() {
            eq.number = Some(create_eq::out::EQ_NUMBER.get(&out) as u8);
        }
        Ok(())
    }

    fn enable_roce(&mut self) -> Result<(), Error> {
        let mut input = [0; modify_nic_vport_context::IN_LEN];
        modify_nic_vport_context::FIELD_SELECT.set(&mut input, nic_vport_select::ROCE_EN);
        nic_vport_context::ROCE_EN.at(modify_nic_vport_context::NIC_VPORT_CONTEXT).set(&mut input, 1);
        self.execute(Opcode::MODIFY_NIC_VPORT_CONTEXT, 0, &mut input, &mut [0; modify_nic_vport_context::OUT_LEN])
    }

    /// Which headers the request of a frame must hold itself.
    fn inline_mode(&mut self, caps: &Caps) -> Result<InlineMode, Error> {
        /// What the capability says.
        const THE_VPORT_SAYS: u32 = 1;
        const NOT_NEEDED: u32 = 2;
        if !cmd_hca_cap::ETH_NET_OFFLOADS.is_set(&caps.general) {
            return Ok(InlineMode::None);
        }
        let mut buffer = CapBuffer([0; CapBuffer::LEN]);
        self.query_caps(hca_cap_op_mod::ETHERNET | hca_cap_op_mod::CURRENT, &mut buffer)?;
        match eth_caps::WQE_INLINE_MODE.get(buffer.structure()) {
            NOT_NEEDED => Ok(InlineMode::None),
            THE_VPORT_SAYS => port::inline_mode(self.hal, self.control),
            _ => Ok(InlineMode::Layer2),
        }
    }

    /// What the user is told of the device.
    fn attributes(&mut self, caps: &Caps) -> Result<DeviceAttr, Error> {
        let [node_guid, sys_image_guid] = crate::port::guids(self.hal, self.control, caps)?;
        let mut attr = crate::attr::from_caps(caps);
        attr.firmware = firmware(self.hal, &self.control.registers);
        attr.node_guid = node_guid;
        attr.sys_image_guid = sys_image_guid;
        Ok(attr)
    }
}

/// A word that tells one function's address handles from another's.
fn mark<H: PciFunction>(hal: &H) -> u32 {
    let a = hal.address();
    let [bus, device, function] = [a.bus, a.device & 31, a.function & 7].map(u32::from);
    1 << 31 ^ u32::from(a.segment) << 16 | bus << 8 | device << 3 | function
}

/// The smallest n with 2^n >= v.
fn ceil_log2(v: u32) -> u32 {
    v.max(1).next_power_of_two().trailing_zeros()
}

/// 2^n, or the largest number where that does not fit.
pub(crate) fn power(n: u32) -> u32 {
    1u32.checked_shl(n).unwrap_or(u32::MAX)
}
