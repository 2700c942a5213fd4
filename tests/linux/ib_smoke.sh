# InfiniBand, one tool of each kind.

alone devinfo '[ "$(ibv_devinfo -v | grep -c "state:.*PORT_ACTIVE")" = "$(ls /sys/class/infiniband | wc -l)" ]'
pair rc_pingpong 'ibv_rc_pingpong -n 200'
pair uc_pingpong_events 'ibv_uc_pingpong -e -n 200'
pair ud_pingpong 'ibv_ud_pingpong -n 200'
pair srq_pingpong_events 'ibv_srq_pingpong -e -n 200'
pair xsrq_pingpong 'ibv_xsrq_pingpong -n 200'
pair send_bw 'ib_send_bw -F -n 200'
pair write_lat 'ib_write_lat -F -n 200'
pair read_bw 'ib_read_bw -F -n 200'
pair atomic_bw 'ib_atomic_bw -F -n 200'
pair send_bw_ud 'ib_send_bw -F -c UD -n 200'
