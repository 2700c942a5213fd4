# Guest 1 has the kernel's mlx5_ib and the ibv_ ping-pongs of rdma-core, guest 2 its card on vfio-pci and ours.
# On RoCE both have the link-local address of their MAC. Ours takes the other's MAC from it; the kernel asks its neighbour
# table, where the answer stands already, since nobody at our end answers such questions.
. ./vfio_lib.sh

export gid=
if [ "$GUEST" = 1 ]; then
  modprobe -a mlx5_ib ib_uverbs
  DEVICE=mlx5_0
  ours=ibv_
  for netdev in /sys/class/infiniband/mlx5_0/device/net/*; do
    # The port's table has RoCE v1 at 0 and RoCE v2 at 1.
    [ -e "$netdev" ] || continue
    gid='-g 1'
    ip link set "${netdev##*/}" up
    ip neighbour replace fe80::c9ff:fe00:1 lladdr 02:00:c9:00:00:01 dev "${netdev##*/}" nud permanent
  done
  alone ready 'until ibv_devinfo -v | grep -q "PORT_ACTIVE" && [ -z "$gid" ] || ibv_devinfo -v | grep -q "GID\[  1\].*fe80:.*RoCE v2"; do sleep 0.1; done'
else
  DEVICE=$(card)
  ours=./
  alone ready "bind $DEVICE"
fi

pair rc_pingpong_kernel_serves "${ours}rc_pingpong -n 50 $gid"
pair uc_pingpong_kernel_serves "${ours}uc_pingpong -n 50 $gid"
pair ud_pingpong_kernel_serves "${ours}ud_pingpong -n 50 $gid"
pair srq_pingpong_kernel_serves "${ours}srq_pingpong -n 50 $gid"

# From here on guest 2 serves.
GUEST=$((3 - GUEST))
pair rc_pingpong_kernel_asks "${ours}rc_pingpong -n 50 $gid"
pair uc_pingpong_kernel_asks "${ours}uc_pingpong -n 50 $gid"
pair ud_pingpong_kernel_asks "${ours}ud_pingpong -n 50 $gid"
pair srq_pingpong_kernel_asks "${ours}srq_pingpong -n 50 $gid"
