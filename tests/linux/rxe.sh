# The model against Linux's own RoCE in software: guest 1 has the card, guest 2 rdma_rxe on a network interface that a
# wire joins to the card's network. Each case in both directions.

if [ "$GUEST" = 1 ]; then
  DEVICE=mlx5_0
  netdev=$(ls /sys/class/infiniband/mlx5_0/device/net)
else
  DEVICE=rxe0
  modprobe rdma_rxe
  modprobe ib_uverbs
  modprobe rdma_ucm
  netdev=$(grep -l 52:54:00:00:03:02 /sys/class/net/*/address | cut -d/ -f5)
fi
ip address add "10.0.0.$GUEST/24" dev "$netdev"
ip link set "$netdev" up
[ "$GUEST" = 1 ] || rdma link add rxe0 type rxe netdev "$netdev"

# The GID of the IPv4 address stands elsewhere in each one's table.
for _ in $(seq 100); do
  GID=$(ibv_devinfo -v -d $DEVICE | sed -n 's/.*GID\[ *\([0-9]*\)\].*::ffff:10\.0\.0\..*RoCE v2.*/\1/p')
  [ -n "$GID" ] && break
  sleep 0.1
done

alone ping 'for _ in $(seq 100); do ping -c 1 -W 1 10.0.0.$((3 - GUEST)) && exit; done; exit 1'

pair rc_pingpong 'ibv_rc_pingpong -g GID -n 100'
pair uc_pingpong 'ibv_uc_pingpong -g GID -n 100'
pair ud_pingpong 'ibv_ud_pingpong -g GID -n 100'
pair srq_pingpong 'ibv_srq_pingpong -g GID -n 100'
pair send_bw 'ib_send_bw -F -x GID -n 100'
pair send_bw_ud 'ib_send_bw -F -x GID -c UD -n 100'
pair write_bw 'ib_write_bw -F -x GID -n 100'
pair read_bw 'ib_read_bw -F -x GID -n 100'
pair atomic_bw 'ib_atomic_bw -F -x GID -n 100'
pair write_bw_all_sizes 'ib_write_bw -F -x GID -a -n 10'

SERVING=2
pair rxe_serves_rc_pingpong 'ibv_rc_pingpong -g GID -n 100'
pair rxe_serves_ud_pingpong 'ibv_ud_pingpong -g GID -n 100'
pair rxe_serves_send_bw 'ib_send_bw -F -x GID -n 100'
pair rxe_serves_write_bw 'ib_write_bw -F -x GID -n 100'
pair rxe_serves_read_bw 'ib_read_bw -F -x GID -n 100'
pair rxe_serves_atomic_bw 'ib_atomic_bw -F -x GID -n 100'
