# RoCE: frames of the kernel's own, the tools of rdma-core and perftest, and the connection manager's.
# A GID index of 3 is RoCE v2 over IPv4, 1 RoCE v2 over IPv6, 0 RoCE v1.

. ./roce_net.sh

alone devinfo '$SERVER ibv_devinfo -v | grep -q "state:.*PORT_ACTIVE"'
alone gid_v1 '$SERVER ibv_devinfo -v | grep -q "GID\[  0\]:.*RoCE v1"'
alone ping '$CLIENT ping -c 3 10.0.0.1'
alone ping_large '$CLIENT ping -c 3 -s 8000 10.0.0.1'
alone ping_ipv6 '$CLIENT ping -c 3 -I $($CLIENT ls /sys/class/net | grep -v lo) ff02::1'
alone neighbour '$SERVER ip neighbour | grep -q "10.0.0.2 .*lladdr"'
alone port_counters '$SERVER ethtool -S $($SERVER ls /sys/class/net | grep -v lo) | grep "rx_packets_phy: [1-9]"'

pair rc_pingpong 'ibv_rc_pingpong -g 3 -n 200'
pair uc_pingpong 'ibv_uc_pingpong -g 3 -n 200'
pair ud_pingpong 'ibv_ud_pingpong -g 3 -n 200'
pair srq_pingpong 'ibv_srq_pingpong -g 3 -n 200'
pair xsrq_pingpong 'ibv_xsrq_pingpong -g 3 -n 200'
pair rc_pingpong_events 'ibv_rc_pingpong -g 3 -e -n 200'
pair ud_pingpong_events 'ibv_ud_pingpong -g 3 -e -n 200'
pair rc_pingpong_v1 'ibv_rc_pingpong -g 0 -n 200'
pair ud_pingpong_v1 'ibv_ud_pingpong -g 0 -n 200'
pair rc_pingpong_ipv6 'ibv_rc_pingpong -g 1 -n 200'

pair send_bw 'ib_send_bw -F -x 3 -n 200'
pair write_bw 'ib_write_bw -F -x 3 -n 200'
pair read_bw 'ib_read_bw -F -x 3 -n 200'
pair atomic_bw 'ib_atomic_bw -F -x 3 -n 200'
pair send_lat 'ib_send_lat -F -x 3 -n 200'
pair write_lat 'ib_write_lat -F -x 3 -n 200'
pair read_lat 'ib_read_lat -F -x 3 -n 200'
pair atomic_lat 'ib_atomic_lat -F -x 3 -n 200'
pair send_bw_ud 'ib_send_bw -F -x 3 -c UD -n 200'
pair write_bw_16_qps 'ib_write_bw -F -x 3 -q 16 -n 100'
pair send_bw_srq 'ib_send_bw -F -x 3 --use-srq -q 4 -n 100'
pair send_bw_all_sizes 'ib_send_bw -F -x 3 -a -n 20'
pair write_bw_cm 'ib_write_bw -F -R -n 200'
pair send_bw_ud_cm 'ib_send_bw -F -R -c UD -n 200'

manager rping 'rping -V -C 50 -S 4000 -p 7201' '-s -a 0.0.0.0' '-c -a'
manager ucmatose 'ucmatose -p 7202 -C 10' '' '-s'
manager udaddy 'udaddy -C 10' '' '-s'
alone mckey '. ./mckey.sh'
