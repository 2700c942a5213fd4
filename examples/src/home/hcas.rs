//! The tools that look for HCAs on a Linux host: `devices` and `preflight`.

use super::process::{Failed, end};
use bareverbs_hal::PciAddress;
use bareverbs_mlx5_prm::ids::{self, DeviceId};
use bareverbs_vfio::{FunctionInfo, Host, functions};
use std::{env, fmt::Write, process::ExitCode};

const DEVICES: &str = "\
usage: devices
lists the ConnectX and BlueField functions of this host: PCI address, id, driver, IOMMU group, name
";

const PREFLIGHT: &str = "\
usage: preflight BDF
tells what stands between a program and the HCA at the PCI address BDF (0000:3b:00.0), and how to clear it
";

/// What a tool without options was called for: its usage, which goes to standard output on request.
fn usage(text: &str) -> Option<ExitCode> {
    let is_asked = |a: String| a == "-h" || a == "--help";
    env::args().skip(1).any(is_asked).then(|| end(text, ExitCode::SUCCESS))
}

/// `devices`: exit status 1 if there are none.
pub fn devices() -> ExitCode {
    if let Some(status) = usage(DEVICES) {
        return status;
    }
    if let Some(extra) = env::args().nth(1) {
        eprint!("devices: no argument is taken, not '{extra}'\n{DEVICES}");
        return ExitCode::from(2);
    }
    match functions(&Host::default()) {
        Ok(all) => {
            let hcas = hcas(&all);
            if hcas.is_empty() {
                eprintln!("devices: none of the {} PCI functions is a ConnectX or BlueField", all.len());
                return ExitCode::FAILURE;
            }
            end(&table(&hcas), ExitCode::SUCCESS)
        }
        Err(e) => {
            eprintln!("devices: cannot read the PCI functions in /sys/bus/pci/devices: {e}");
            ExitCode::FAILURE
        }
    }
}

/// `preflight BDF`: exit status 1 if something stands in the way.
pub fn preflight() -> ExitCode {
    if let Some(status) = usage(PREFLIGHT) {
        return status;
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [bdf] = &arguments[..] else {
        eprint!("preflight: one PCI address is taken, not {} arguments\n{PREFLIGHT}", arguments.len());
        return ExitCode::from(2);
    };
    let address = match bdf.parse() {
        Ok(address) => address,
        Err(e) => {
            eprintln!("preflight: '{bdf}' is {e}; `devices` lists the HCAs of this host");
            return ExitCode::from(2);
        }
    };
    let host = Host::default();
    // Who is no HCA gets no advice to take its driver away.
    if let Some(stranger) = bareverbs_vfio::function(&host, address).ok().and_then(|info| stranger(&info)) {
        return end(&format!("{stranger}\n"), ExitCode::FAILURE);
    }
    let report = bareverbs_vfio::preflight::preflight(&host, address);
    end(&report.to_string(), if report.is_clear() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The functions that are HCAs, and what they are.
fn hcas(all: &[FunctionInfo]) -> Vec<(&FunctionInfo, &'static DeviceId)> {
    all.iter().filter_map(|info| Some((info, ids::find(info.vendor, info.device)?))).collect()
}

/// One line an HCA.
fn table(hcas: &[(&FunctionInfo, &'static DeviceId)]) -> String {
    let mut text = String::new();
    for (info, id) in hcas {
        let driver = info.driver.as_deref().unwrap_or("-");
        let group = info.group.map_or("-".into(), |group| group.to_string());
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{}  {:04x}:{:04x}  {driver:<12} group {group:<4} {}",
            info.address, info.vendor, info.device, id.name
        );
    }
    text
}

/// What is wrong with a function that is no HCA.
fn stranger(info: &FunctionInfo) -> Option<String> {
    if ids::find(info.vendor, info.device).is_some() {
        return None;
    }
    Some(format!(
        "{} is {:04x}:{:04x}, a ConnectX-4 or later or a BlueField was expected. Next: look for one in what `devices` \
         lists",
        info.address, info.vendor, info.device
    ))
}

/// Fails for a function that is no HCA, before anything is done to it.
pub(crate) fn check(address: PciAddress) -> Result<(), Failed> {
    let info = bareverbs_vfio::function(&Host::default(), address);
    match info.ok().and_then(|info| stranger(&info)) {
        Some(stranger) => Err(stranger.into()),
        // That there is none at all is told by opening it.
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(device: u16, driver: Option<&str>, group: Option<u32>) -> FunctionInfo {
        let address = "0000:3b:00.0".parse().unwrap();
        FunctionInfo { address, vendor: 0x15b3, device, driver: driver.map(String::from), group }
    }

    #[test]
    fn hcas_are_listed_with_their_driver_and_others_are_not() {
        // 15b3:1002 is no HCA (PCI ID Repository: MT25400 Family).
        let all = [info(0x1017, Some("mlx5_core"), Some(12)), info(0x1002, None, None), info(0x1019, None, None)];
        let text = table(&hcas(&all));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "0000:3b:00.0  15b3:1017  mlx5_core    group 12   ConnectX-5");
        assert_eq!(lines[1], "0000:3b:00.0  15b3:1019  -            group -    ConnectX-5 Ex");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn a_function_that_is_no_hca_is_named() {
        assert_eq!(stranger(&info(0x1017, None, None)), None);
        assert!(stranger(&info(0x1002, None, None)).unwrap().starts_with("0000:3b:00.0 is 15b3:1002, a ConnectX-4"));
    }
}
