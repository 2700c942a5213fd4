//! Commands on the function as a whole: ENABLE_HCA .. TEARDOWN_HCA, ISSI, QUERY_ADAPTER.

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{cmd::Status, commands::*};

use crate::{
    command::{Call, Phase},
    hca::Hca,
    pages,
    refusal::{Outcome, require},
};

/// The interface step that the model speaks.
const ISSI: u32 = 1;

fn own_function(input: &[u8]) -> Outcome {
    let (other, cpu) = (enable_hca::FUNCTION_ID.get(input), enable_hca::EMBEDDED_CPU_FUNCTION.is_set(input));
    require(other == 0 && !cpu, Status::BadParameter, 0x0100, "there is no other function than 0")
}

/// ENABLE_HCA.
pub fn enable_hca(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own_function(call.input)?;
    require(hca.phase == Phase::Off, Status::BadSystemState, 0x0101, "the function is enabled already")?;
    hca.phase = Phase::Enabled;
    Ok(())
}

/// DISABLE_HCA: firmware must have given back its pages.
pub fn disable_hca(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own_function(call.input)?;
    require(hca.phase == Phase::Enabled, Status::BadSystemState, 0x0102, "TEARDOWN_HCA comes before DISABLE_HCA")?;
    let held = hca.pages.held.len();
    require(held == 0, Status::BadSystemState, 0x0103, format_args!("firmware still holds {held} pages"))?;
    hca.phase = Phase::Off;
    hca.issi = 0;
    Ok(())
}

/// QUERY_ISSI.
pub fn query_issi(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    query_issi::out::CURRENT_ISSI.set(call.out, hca.issi);
    query_issi::out::SUPPORTED_ISSI_DW0.set(call.out, 1 << ISSI);
    Ok(())
}

/// SET_ISSI.
pub fn set_issi(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let issi = set_issi::CURRENT_ISSI.get(call.input);
    require(issi == ISSI, Status::BadParameter, 0x0104, format_args!("ISSI {issi} is not supported"))?;
    require(hca.phase == Phase::Enabled, Status::BadSystemState, 0x0105, "SET_ISSI comes before INIT_HCA")?;
    hca.issi = issi;
    Ok(())
}

/// INIT_HCA.
pub fn init_hca(hca: &mut Hca, _bus: &mut dyn Bus, _call: &mut Call) -> Outcome {
    require(hca.phase == Phase::Enabled, Status::BadSystemState, 0x0106, "INIT_HCA was done already")?;
    require(hca.issi == ISSI, Status::BadSystemState, 0x0107, "SET_ISSI comes before INIT_HCA")?;
    let missing = hca.pages.missing_for_init();
    require(missing == 0, Status::BadSystemState, 0x0108, format_args!("firmware still lacks {missing} pages"))?;
    hca.phase = Phase::Running;
    pages::initialized(hca);
    Ok(())
}

/// TEARDOWN_HCA, the graceful one: every object is gone. UARs that are left go with the function: no source says
/// that they hold it, but a driver that keeps its books gives them back.
pub fn teardown_hca(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    require(hca.phase == Phase::Running, Status::BadSystemState, 0x0109, "INIT_HCA was not done")?;
    let profile = teardown_hca::PROFILE.get(call.input);
    require(profile == 0, Status::BadParameter, 0x010a, format_args!("teardown profile {profile} is not advertised"))?;
    let left = hca.objects();
    require(left == 0, Status::BadSystemState, 0x010b, format_args!("{left} objects still exist"))?;
    let uars = core::mem::take(&mut hca.uars).len();
    if uars > 0 {
        hca.violation(bus, format_args!("TEARDOWN_HCA: {uars} UARs are still allocated"));
    }
    hca.phase = Phase::Enabled;
    Ok(())
}

/// QUERY_ADAPTER.
pub fn query_adapter(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    use query_adapter_param_block as block;
    let base = query_adapter::out::QUERY_ADAPTER_STRUCT;
    block::IEEE_VENDOR_ID.at(base).set(call.out, 0x2c9);
    block::VSD_VENDOR_ID.at(base).set(call.out, 0x15b3);
    block::PSID.at(base).set(call.out, hca.config.device.psid());
    Ok(())
}
