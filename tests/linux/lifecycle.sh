# The same cards after a reboot in the middle of their traffic, and after their driver was unloaded ten times.

if ! head -c 512 /dev/vdc | grep -q again; then
  echo again | dd of=/dev/vdc conv=fsync 2>/dev/null
  busy
  echo b >/proc/sysrq-trigger
  sleep 60
fi

pair rc_pingpong_after_reboot 'ibv_rc_pingpong -n 200'

reload() {
  for _ in $(seq 10); do
    modprobe -r rdma_ucm ib_umad mlx5_ib && modprobe -r mlx5_core || return
    modprobe mlx5_ib
    for _ in $(seq 200); do
      [ "$(cat /sys/class/infiniband/mlx5_[01]/ports/1/state 2>/dev/null)" = "4: ACTIVE
4: ACTIVE" ] && break
      sleep 0.1
    done
    cat /sys/class/infiniband/mlx5_[01]/ports/1/state || return
  done
}
export -f reload
alone reload_10_times reload
pair rc_pingpong_after_reload 'ibv_rc_pingpong -n 200'
pair write_bw_after_reload 'ib_write_bw -F -n 200'
