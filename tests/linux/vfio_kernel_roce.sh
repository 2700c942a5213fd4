# As vfio_kernel.sh, and by IPv4 addresses; at the end the kernel has learned our MAC by both protocols.
. ./vfio_kernel.sh

pair rc_pingpong_ipv4 "${ours}rc_pingpong -n 50 $ipv4"
pair ud_pingpong_ipv4 "${ours}ud_pingpong -n 50 $ipv4"
alone kernel_learned_our_mac '[ -z "$NETDEV" ] || ip neighbour show dev $NETDEV | tee /dev/stderr |
  grep -c "^\(10.0.0.2\|fe80::c9ff:fe00:1\) .*lladdr 02:00:c9:00:00:01" | grep -qx 2'
