//! `preflight BDF`: what stands between a program and an HCA of this host, in words.
fn main() -> std::process::ExitCode {
    bareverbs_examples::home::preflight()
}
