# What notices if a command has no effect, over InfiniBand: short, what is quick first, and with the driver's end.

# active: waits until both ports are.
active() {
  for _ in $(seq 200); do
    [ "$(cat /sys/class/infiniband/mlx5_[01]/ports/1/state 2>/dev/null)" = "4: ACTIVE
4: ACTIVE" ] && return
    sleep 0.1
  done
  return 1
}
export -f active

alone devinfo '[ "$(ibv_devinfo -v | grep -c "state:.*PORT_ACTIVE")" = 2 ]'
alone identity '[ "$(ibv_devinfo -v | grep -cE "board_id:.*MT_0000000012|atomic_cap:.*ATOMIC_HCA ")" = 4 ]'
alone connection_manager '[ $(($(cat /sys/class/infiniband/mlx5_0/ports/1/cap_mask) & 0x10000)) != 0 ]'
alone kernel_mad 'smpquery nodeinfo -C mlx5_0 1'
pair rc_pingpong_events 'ibv_rc_pingpong -e -n 20'
pair ud_pingpong 'ibv_ud_pingpong -n 20'
pair xsrq_pingpong 'ibv_xsrq_pingpong -n 20'
alone srq_limit 'python3 objects.py srq_limit'
alone cq_resize 'python3 objects.py cq_resize'
alone rereg 'python3 data.py rereg'
alone error 'python3 errors.py wrong_rkey_write'
alone flushed 'python3 errors.py flushed'
alone states 'python3 objects.py reset rts_to_rts'
alone init_to_init 'python3 objects.py init_to_init'
alone unload 'modprobe -r rdma_ucm ib_umad mlx5_ib && modprobe -r mlx5_core'
alone again 'modprobe mlx5_ib && active'
