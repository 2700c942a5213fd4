//! Faults on demand: what shall go wrong, and when.

use std::time::Duration;

use bareverbs_mlx5_prm::cmd::{DeliveryStatus, Opcode, Status};

/// What shall go wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Of commands.
    pub commands: Vec<CommandRule>,
    /// Firmware asks for this many more pages in the event after INIT_HCA.
    pub page_request: Option<i32>,
    /// What QUERY_PAGES answers instead of the truth: boot, init, regular.
    pub page_answers: [Option<i32>; 3],
    /// The health counter stops at this time.
    pub counter_stops: Option<Duration>,
    /// At this time the health buffer shows this syndrome, and the device stops.
    pub health: Option<(Duration, u8)>,
}

/// Which command, and what happens to it.
#[derive(Clone, Copy, Debug)]
pub struct CommandRule {
    /// Only this opcode, or any.
    pub opcode: Option<Opcode>,
    /// How many matching commands pass unharmed before.
    pub skip: u64,
    /// How many matching commands are hit then.
    pub times: u64,
    /// What happens.
    pub fault: CommandFault,
}

/// What happens to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandFault {
    /// Not executed, refused.
    Refuse(Status, u32),
    /// Executed, answered so much later.
    Late(Duration),
    /// Not executed, never answered.
    Never,
    /// Executed, answered with another token in entry and mailboxes.
    WrongToken,
    /// Executed, answered with broken signatures.
    WrongSignature,
    /// Executed, answered with this delivery status.
    Delivery(DeliveryStatus),
    /// Answered OK with nothing done and an output of zeros: shows whether anybody notices.
    NoEffect,
}

impl Faults {
    /// What happens to the next command of this opcode; each rule counts its own matches.
    pub fn command(&mut self, opcode: Opcode) -> Option<CommandFault> {
        let mut hit = None;
        for rule in self.commands.iter_mut().filter(|r| r.opcode.is_none_or(|o| o == opcode)) {
            if rule.skip > 0 {
                rule.skip -= 1;
            } else if rule.times > 0 && hit.is_none() {
                rule.times -= 1;
                hit = Some(rule.fault);
            }
        }
        hit
    }
}
