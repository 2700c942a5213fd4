# What notices if a command has no effect, over InfiniBand: short, and with the driver's end.

alone devinfo '[ "$(ibv_devinfo -v | grep -c "state:.*PORT_ACTIVE")" = 2 ]'
alone kernel_mad 'smpquery nodeinfo -C mlx5_0 1'
pair rc_pingpong_events 'ibv_rc_pingpong -e -n 20'
pair ud_pingpong 'ibv_ud_pingpong -n 20'
pair xsrq_pingpong 'ibv_xsrq_pingpong -n 20'
alone srq_limit 'python3 objects.py srq_limit'
alone cq_resize 'python3 objects.py cq_resize'
alone rereg 'python3 data.py rereg'
alone error 'python3 errors.py wrong_rkey_write'
alone unload 'modprobe -r rdma_ucm ib_umad mlx5_ib && modprobe -r mlx5_core'
