//! `figures`: what a device of this driver takes, on two modelled HCAs: commands, memory, round trips.

use anyhow::{Context, Result, ensure};
use bareverbs::{
    Access, AckTimeout, AhAttr, CqInit, Device, Mtu, PortNum, Psn, QpAttr, QpCap, QpInit, QpState, QpType, QueuePair,
    RetryCount, RnrTimer, SrqAttr,
};
use bareverbs_harness::{Function, World};
use bareverbs_mlx5::{Config, Mlx5};
use bareverbs_model_mlx5::{Hca, HcaConfig};
use std::time::Duration;

/// Objects of a kind, to tell what one takes.
const N: usize = 256;

/// Bytes that the driver holds: in DMA memory, and in memory of its own.
fn held(function: &Function) -> [usize; 2] {
    [function.dma_outstanding(), function.state_outstanding()]
}

/// What one of `N` objects takes.
fn each<T>(function: &Function, what: &str, mut make: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    let before = held(function);
    let objects = (0..N).map(|_| make()).collect::<Result<Vec<T>>>()?;
    let [dma, state] = [0, 1].map(|i| (held(function)[i] - before[i]) / N);
    println!("{what:<44} {dma:>7} bytes of DMA memory, {state:>6} of its own");
    Ok(objects)
}

fn main() -> Result<()> {
    let world = World::new(1);
    let functions = [0, 1].map(|n| world.plug(Box::new(Hca::new(HcaConfig::infiniband(n)))));
    let peer = Mlx5::<Function>::open(functions[1].clone(), Config::default())?;
    let function = &functions[0];
    let device = Mlx5::<Function>::open(function.clone(), Config::default())?;
    let ready = device.commands();
    let [dma, state] = held(function);
    println!("commands from reset to ready                 {ready:>7}");
    println!("memory of an open device                     {dma:>7} bytes given to the device, {state:>6} of its own");

    let pd = device.alloc_pd()?;
    let cq = device.create_cq(&CqInit { entries: 255, ..CqInit::default() })?;
    let cap = QpCap { max_send_wr: 128, max_recv_wr: 128, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let init = QpInit { kind: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, cap, signal_all: false, context: 0 };
    let mut qp = device.create_qp(&pd, &init)?;
    to_rts(&mut qp, peer.query_port(PortNum(1))?.lid)?;
    println!("commands from reset to a QP in RTS            {:>6}", device.commands());
    drop(qp);

    each(function, "a QP of 128 sends and 128 receives", || Ok(device.create_qp(&pd, &init)?))?;
    each(function, "a CQ of 255 entries", || Ok(device.create_cq(&CqInit { entries: 255, ..CqInit::default() })?))?;
    each(function, "an SRQ of 127 receives", || {
        Ok(device.create_srq(&pd, SrqAttr { max_wr: 127, max_sge: 1, limit: 0 })?)
    })?;
    each(function, "a region of 1 MiB (its own memory not counted)", || {
        let memory: &'static mut [u8] = Box::leak(vec![0; 1 << 20].into_boxed_slice());
        Ok(device.register(&pd, memory, Access::LOCAL_WRITE)?)
    })?;
    round_trips("one thread", &[])?;
    round_trips("threads", &["--threads"])
}

fn to_rts<Q: QueuePair>(qp: &mut Q, dlid: bareverbs::Lid) -> Result<()> {
    let port = PortNum(1);
    qp.modify(&QpAttr::to(QpState::Init).port(port).pkey_index(0).access(Access::empty()))?;
    let av = AhAttr { port, dlid, ..AhAttr::default() };
    let rtr = QpAttr::to(QpState::Rtr).path_mtu(Mtu::B1024).dest_qpn(qp.qpn()).rq_psn(Psn::new(0)).av(av);
    qp.modify(&rtr.max_dest_rd_atomic(1).min_rnr_timer(RnrTimer::at_least(Duration::from_micros(640))))?;
    let rts = QpAttr::to(QpState::Rts).sq_psn(Psn::new(0)).max_rd_atomic(1);
    let timeout = AckTimeout::at_least(Duration::from_millis(67));
    Ok(qp.modify(&rts.timeout(timeout).retry_cnt(RetryCount::MAX).rnr_retry(RetryCount::MAX))?)
}

/// Round trips a second of the ping-pong of 64 bytes that stands beside this program.
fn round_trips(how: &str, arguments: &[&str]) -> Result<()> {
    let program = std::env::current_exe()?.with_file_name("rc_pingpong");
    let mut command = std::process::Command::new(&program);
    let output = command.args(["-s", "64", "-n", "20000"]).args(arguments).output();
    let output = output.with_context(|| format!("{} (build bareverbs-examples)", program.display()))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    // "20000 iters in 0.24 seconds = 12.05 usec/iter"
    let line = text.lines().find(|line| line.ends_with("usec/iter")).context("no figure")?;
    let micros: f64 = line.split_whitespace().rev().nth(1).context("no figure")?.parse()?;
    println!("ping-pong of 64 bytes, {how:<22} {:>7.0} round trips a second", 1e6 / micros);
    Ok(())
}
