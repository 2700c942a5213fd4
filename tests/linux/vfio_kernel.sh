# Guest 1 has the kernel's mlx5_ib and the ibv_ ping-pongs of rdma-core, guest 2 its card on vfio-pci and ours.
. ./vfio_lib.sh

if [ "$GUEST" = 1 ]; then
  modprobe -a mlx5_ib ib_uverbs
  DEVICE=mlx5_0
  ours=ibv_
  alone ready 'until ibv_devinfo | grep -q PORT_ACTIVE; do sleep 0.1; done'
else
  DEVICE=$(card)
  ours=./
  alone ready "bind $DEVICE"
fi

pair rc_pingpong_kernel_serves "${ours}rc_pingpong -n 50"
pair uc_pingpong_kernel_serves "${ours}uc_pingpong -n 50"
pair ud_pingpong_kernel_serves "${ours}ud_pingpong -n 50"
pair srq_pingpong_kernel_serves "${ours}srq_pingpong -n 50"

# From here on guest 2 serves.
GUEST=$((3 - GUEST))
pair rc_pingpong_kernel_asks "${ours}rc_pingpong -n 50"
pair uc_pingpong_kernel_asks "${ours}uc_pingpong -n 50"
pair ud_pingpong_kernel_asks "${ours}ud_pingpong -n 50"
pair srq_pingpong_kernel_asks "${ours}srq_pingpong -n 50"
