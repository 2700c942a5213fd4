# Guest 1 has the kernel's mlx5_ib and the ibv_ ping-pongs of rdma-core, guest 2 its card on vfio-pci and ours.
# On RoCE both have the link-local address of their MAC, and 10.0.0.1 (the kernel's) and 10.0.0.2 (ours). Ours takes the
# other's MAC from the one or is told it; the kernel asks for ours over the link, and ours answers (ARP, neighbour
# discovery): nothing stands in the kernel's neighbour table.
. ./vfio_lib.sh

export gid= ipv4=
if [ "$GUEST" = 1 ]; then
  modprobe -a mlx5_ib ib_uverbs
  DEVICE=mlx5_0
  ours=ibv_
  multicast='python3 multicast_pingpong.py'
  for netdev in /sys/class/infiniband/mlx5_0/device/net/*; do
    # The port's table has RoCE v1 at 0 and RoCE v2 at 1.
    [ -e "$netdev" ] || continue
    # The IPv4 address comes behind: v1 at 2, v2 at 3.
    gid='-g 1' ipv4='-g 3'
    ip link set "${netdev##*/}" up
    ip address add 10.0.0.1/24 dev "${netdev##*/}"
    export NETDEV=${netdev##*/}
  done
  # An address that is still looked for on the link (RFC 4862, 5.4) asks for no neighbour.
  alone ready 'until [ -z "$NETDEV" ] || [ -z "$(ip -6 address show dev $NETDEV tentative)" ]; do sleep 0.1; done
  until ibv_devinfo -v | grep -q "PORT_ACTIVE" && [ -z "$gid" ] || ibv_devinfo -v | grep -q "GID\[  3\].*10.0.0.1.*RoCE v2"; do sleep 0.1; done'
else
  DEVICE=$(card)
  ours=./
  multicast='./ud_pingpong --multicast -c --seed 7'
  ipv4='--ip 10.0.0.2 --dmac 02:00:c9:00:00:00 -g 1'
  alone ready "bind $DEVICE"
fi

pair rc_pingpong_kernel_serves "${ours}rc_pingpong -n 50 $gid"
pair uc_pingpong_kernel_serves "${ours}uc_pingpong -n 50 $gid"
pair ud_pingpong_kernel_serves "${ours}ud_pingpong -n 50 $gid"
pair srq_pingpong_kernel_serves "${ours}srq_pingpong -n 50 $gid"
pair multicast_kernel_serves "$multicast -n 50"

# From here on guest 2 serves.
GUEST=$((3 - GUEST))
pair rc_pingpong_kernel_asks "${ours}rc_pingpong -n 50 $gid"
pair uc_pingpong_kernel_asks "${ours}uc_pingpong -n 50 $gid"
pair ud_pingpong_kernel_asks "${ours}ud_pingpong -n 50 $gid"
pair srq_pingpong_kernel_asks "${ours}srq_pingpong -n 50 $gid"
pair multicast_kernel_asks "$multicast -n 50"
