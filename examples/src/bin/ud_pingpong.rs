//! `ud_pingpong`: what ibv_ud_pingpong does, on whatever home it is built for.
use bareverbs_examples::{home, options::Program};

fn main() -> std::process::ExitCode {
    home::main(Program::UdPingpong)
}
