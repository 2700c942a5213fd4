//! `srq_pingpong`: what ibv_srq_pingpong does, on whatever home it is built for.
use bareverbs_examples::{home, options::Program};

fn main() -> std::process::ExitCode {
    home::main(Program::SrqPingpong)
}
