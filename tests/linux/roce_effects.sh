# What notices if a command has no effect, over RoCE: short, and with the driver's end.

. ./roce_net.sh

alone devinfo '$SERVER ibv_devinfo -v | grep -q "state:.*PORT_ACTIVE"'
alone address '$SERVER cat /sys/class/net/$($SERVER ls /sys/class/net | grep -v lo)/address | grep -q "^02:00:c9:00:00:0"'
alone ping '$CLIENT ping -c 3 10.0.0.1'
alone port_counters '$SERVER ethtool -S $($SERVER ls /sys/class/net | grep -v lo) | grep "rx_packets_phy: [1-9]"'
alone vport_counters '$SERVER ethtool -S $($SERVER ls /sys/class/net | grep -v lo) | grep "rx_vport_unicast_packets: [1-9]"'
alone queue_counter '$SERVER ethtool -S $($SERVER ls /sys/class/net | grep -v lo) | grep "rx_out_of_buffer:"'
alone loopback '$SERVER ethtool -t $($SERVER ls /sys/class/net | grep -v lo)'
pair rc_pingpong 'ibv_rc_pingpong -g 3 -n 20'
pair ud_pingpong 'ibv_ud_pingpong -g 3 -n 20'
pair write_bw 'ib_write_bw -F -x 3 -n 20'
alone write_requests '$SERVER cat /sys/class/infiniband/mlx5_0/ports/1/hw_counters/rx_write_requests | grep "[1-9]"'
alone mckey '. ./mckey.sh'
alone mtu '$SERVER ip link set $($SERVER ls /sys/class/net | grep -v lo) mtu 9000 && $CLIENT ip link set $($CLIENT ls /sys/class/net | grep -v lo) mtu 9000 && $CLIENT ping -M do -s 8900 -c 2 10.0.0.1'
alone unload 'ip netns del ns0; ip netns del ns1; until [ "$(ls /sys/class/infiniband | wc -l)" = 2 ]; do sleep 0.1; done; modprobe -r rdma_ucm ib_umad mlx5_ib && modprobe -r mlx5_core'
