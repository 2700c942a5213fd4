//! What a client asks for, from its first message to its last.

use super::{
    interrupts::Vectors,
    memory::{ClientMemory, MAX_RANGES},
    message::{MAX_FDS, MAX_TRANSFER, Message, Reply},
};
use crate::{
    model::{BarKind, PciIdentity},
    pci::CONFIG_SIZE,
    slot::Slot,
};
use bareverbs_hal::{MapAccess, Segment};
use rustix::io::Errno;
use std::{io, os::unix::net::UnixStream};

/// Minor version of the protocol; the older one of both sides is in force.
const MINOR: u16 = 1;

// Commands.
const VERSION: u16 = 1;
const DMA_MAP: u16 = 2;
const DMA_UNMAP: u16 = 3;
const DEVICE_GET_INFO: u16 = 4;
const DEVICE_GET_REGION_INFO: u16 = 5;
const DEVICE_GET_IRQ_INFO: u16 = 7;
const DEVICE_SET_IRQS: u16 = 8;
const REGION_READ: u16 = 9;
const REGION_WRITE: u16 = 10;
const DEVICE_RESET: u16 = 13;

// Device, regions and interrupts as in linux/vfio.h.
const DEVICE_FLAGS_RESET: u32 = 1 << 0;
const DEVICE_FLAGS_PCI: u32 = 1 << 1;
const REGION_FLAGS_READ_WRITE: u32 = 0b11;
const REGIONS: u32 = 9;
const CONFIG_REGION: u32 = 7;
const IRQS: u32 = 5;
const IRQ_INTX: u32 = 0;
const IRQ_MSIX: u32 = 2;
const IRQ_ERROR: u32 = 3;
const IRQ_INFO_EVENTFD: u32 = 1 << 0;
const IRQ_INFO_MASKABLE: u32 = 1 << 1;
const IRQ_INFO_AUTOMASKED: u32 = 1 << 2;
const IRQ_INFO_NORESIZE: u32 = 1 << 3;
const IRQ_DATA_NONE: u32 = 1 << 0;
const IRQ_DATA_EVENTFD: u32 = 1 << 2;
const IRQ_ACTION_TRIGGER: u32 = 1 << 5;
const DMA_READ: u32 = 1 << 0;
const DMA_WRITE: u32 = 1 << 1;
const DMA_UNMAP_ALL: u32 = 1 << 1;

/// One client's connection.
#[derive(Debug)]
pub(super) struct Session<'a> {
    stream: UnixStream,
    slot: &'a Slot,
    identity: &'a PciIdentity,
    memory: ClientMemory,
    vectors: Vectors,
    reply: Reply,
}

impl<'a> Session<'a> {
    pub(super) fn new(stream: UnixStream, slot: &'a Slot, identity: &'a PciIdentity) -> Self {
        let vectors = Vectors::new(identity.msix_vectors);
        let raised = vectors.clone();
        slot.on_interrupt(Some(Box::new(move |vector| raised.raise(vector.into()))));
        Self { stream, slot, identity, memory: ClientMemory::new(slot.clone()), vectors, reply: Reply::default() }
    }

    /// Serves the client until it hangs up.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut message = Message::default();
        while message.receive(&mut self.stream)? {
            self.reply.begin();
            let result = self.execute(&mut message);
            if let Err(e) = result {
                log::warn!("vfio-user command {} of {} bytes: {e}", message.command, message.body.len());
            }
            self.reply.send(&message, result, &mut self.stream)?;
        }
        Ok(())
    }

    fn execute(&mut self, m: &mut Message) -> Result<(), Errno> {
        match m.command {
            VERSION => self.version(m),
            DMA_MAP => self.dma_map(m),
            DMA_UNMAP => self.dma_unmap(m),
            DEVICE_GET_INFO => self.device_info(),
            DEVICE_GET_REGION_INFO => self.region_info(m),
            DEVICE_GET_IRQ_INFO => self.irq_info(m),
            DEVICE_SET_IRQS => self.set_irqs(m),
            REGION_READ => self.region_read(m),
            REGION_WRITE => self.region_write(m),
            DEVICE_RESET => {
                self.slot.bus_reset();
                Ok(())
            }
            _ => Err(Errno::NOSYS),
        }
    }

    /// Both sides tell their version and what they can do; only version 0 exists.
    fn version(&mut self, m: &Message) -> Result<(), Errno> {
        if m.u16(0)? != 0 {
            return Err(Errno::INVAL);
        }
        let capabilities = format!(
            "{{\"capabilities\":{{\"max_msg_fds\":{MAX_FDS},\"max_data_xfer_size\":{MAX_TRANSFER},\
             \"max_dma_maps\":{MAX_RANGES},\"pgsizes\":4096}}}}\0"
        );
        self.reply.u16(0).u16(m.u16(2)?.min(MINOR)).put(capabilities.as_bytes());
        Ok(())
    }

    fn device_info(&mut self) -> Result<(), Errno> {
        self.reply.u32(16).u32(DEVICE_FLAGS_RESET | DEVICE_FLAGS_PCI).u32(REGIONS).u32(IRQS);
        Ok(())
    }

    /// Bytes of a region; none where the function has nothing.
    fn region_size(&self, region: u32) -> u64 {
        match self.identity.bars.get(region as usize) {
            Some(BarKind::Memory32(len) | BarKind::Memory64(len)) => *len,
            Some(BarKind::Io(len)) => u64::from(*len),
            Some(BarKind::None) => 0,
            None if region == CONFIG_REGION => CONFIG_SIZE as u64,
            None => 0,
        }
    }

    fn region_info(&mut self, m: &Message) -> Result<(), Errno> {
        let region = m.u32(8)?;
        if region >= REGIONS {
            return Err(Errno::INVAL);
        }
        let size = self.region_size(region);
        let flags = if size > 0 { REGION_FLAGS_READ_WRITE } else { 0 };
        self.reply.u32(32).u32(flags).u32(region).u32(0).u64(size).u64(0);
        Ok(())
    }

    fn irq_info(&mut self, m: &Message) -> Result<(), Errno> {
        let irq = m.u32(8)?;
        let (flags, count) = match irq {
            IRQ_INTX => (IRQ_INFO_EVENTFD | IRQ_INFO_MASKABLE | IRQ_INFO_AUTOMASKED, 1),
            IRQ_MSIX => (IRQ_INFO_EVENTFD | IRQ_INFO_NORESIZE, self.identity.msix_vectors.into()),
            IRQ_ERROR => (IRQ_INFO_EVENTFD | IRQ_INFO_NORESIZE, 1),
            _ if irq < IRQS => (0, 0),
            _ => return Err(Errno::INVAL),
        };
        self.reply.u32(16).u32(flags).u32(irq).u32(count);
        Ok(())
    }

    fn set_irqs(&mut self, m: &mut Message) -> Result<(), Errno> {
        let (flags, irq, start, count) = (m.u32(4)?, m.u32(8)?, m.u32(12)?, m.u32(16)?);
        match irq {
            // The device has the pin and reports errors, but never does either.
            IRQ_INTX | IRQ_ERROR if start == 0 && count <= 1 => return Ok(()),
            IRQ_MSIX => {}
            _ => return Err(Errno::INVAL),
        }
        let vectors = usize::from(self.identity.msix_vectors);
        let (start, count) = (start as usize, count as usize);
        if start.checked_add(count).is_none_or(|end| end > vectors) || flags & IRQ_ACTION_TRIGGER == 0 {
            return Err(Errno::INVAL);
        }
        if flags & IRQ_DATA_EVENTFD != 0 {
            // A run of vectors comes with a descriptor each, or with none at all: those signal nothing.
            return match m.fds.len() {
                0 => self.vectors.set(start, (0..count).map(|_| None)),
                n if n == count => self.vectors.set(start, m.fds.drain(..).map(Some).collect::<Vec<_>>().into_iter()),
                _ => Err(Errno::INVAL),
            };
        }
        if flags & IRQ_DATA_NONE == 0 {
            return Err(Errno::NOSYS);
        }
        if count == 0 {
            self.vectors.clear();
        }
        (start..start + count).for_each(|vector| self.vectors.raise(vector));
        Ok(())
    }

    fn dma_map(&mut self, m: &mut Message) -> Result<(), Errno> {
        let (flags, offset) = (m.u32(4)?, m.u64(8)?);
        let segment = Segment { addr: m.u64(16)?, len: m.u64(24)? };
        let access = match flags & (DMA_READ | DMA_WRITE) {
            DMA_READ => MapAccess::Read,
            both if both == DMA_READ | DMA_WRITE => MapAccess::ReadWrite,
            _ => return Err(Errno::INVAL),
        };
        if m.fds.len() > 1 {
            return Err(Errno::INVAL);
        }
        self.memory.map(segment, access, m.fds.pop(), offset)
    }

    fn dma_unmap(&mut self, m: &Message) -> Result<(), Errno> {
        let (argsz, flags) = (m.u32(0)?, m.u32(4)?);
        let segment = Segment { addr: m.u64(8)?, len: m.u64(16)? };
        if flags & DMA_UNMAP_ALL != 0 {
            self.memory.unmap_all();
        } else {
            self.memory.unmap(segment)?;
        }
        self.reply.u32(argsz).u32(flags).u64(segment.addr).u64(segment.len);
        Ok(())
    }

    /// Where an access goes: offset, region, bytes. It lies inside the region.
    fn access(&self, m: &Message) -> Result<(u64, u32, usize), Errno> {
        let (offset, region, count) = (m.u64(0)?, m.u32(8)?, m.u32(12)? as usize);
        let end = offset.checked_add(count as u64).ok_or(Errno::INVAL)?;
        if count > MAX_TRANSFER || region >= REGIONS || end > self.region_size(region) {
            return Err(Errno::INVAL);
        }
        Ok((offset, region, count))
    }

    fn region_read(&mut self, m: &Message) -> Result<(), Errno> {
        let (offset, region, count) = self.access(m)?;
        self.reply.u64(offset).u32(region).u32(count as u32);
        let data = self.reply.space(count);
        if region == CONFIG_REGION {
            self.slot.config_read(offset as u16, data);
            return Ok(());
        }
        let mut done = 0;
        while done < count {
            let n = word(offset + done as u64, count - done);
            self.slot.mmio_read(region as u8, offset + done as u64, &mut data[done..done + n]);
            done += n;
        }
        Ok(())
    }

    fn region_write(&mut self, m: &Message) -> Result<(), Errno> {
        let (offset, region, count) = self.access(m)?;
        let data = m.body.get(16..16 + count).ok_or(Errno::INVAL)?;
        if region == CONFIG_REGION {
            self.slot.config_write(offset as u16, data);
        } else {
            let mut done = 0;
            while done < count {
                let n = word(offset + done as u64, count - done);
                self.slot.mmio_write_and_run(region as u8, offset + done as u64, &data[done..done + n]);
                done += n;
            }
        }
        self.reply.u64(offset).u32(region).u32(count as u32);
        Ok(())
    }
}

impl Drop for Session<'_> {
    /// The client's machine is gone: first the device forgets it, then its memory and vectors go.
    fn drop(&mut self) {
        self.slot.bus_reset();
        self.slot.on_interrupt(None);
        self.memory.unmap_all();
    }
}

/// The largest naturally aligned access at `offset` that is not longer than `left`.
fn word(offset: u64, left: usize) -> usize {
    [8, 4, 2].into_iter().find(|n| offset.is_multiple_of(*n) && *n as usize <= left).unwrap_or(1) as usize
}
