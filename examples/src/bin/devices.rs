//! `devices`: the HCAs of this host, found on the PCI bus whatever driver they are bound to.
fn main() -> std::process::ExitCode {
    bareverbs_examples::home::devices()
}
