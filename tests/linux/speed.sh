# The card and Linux's own RoCE in software, between the same two guests: prints "speed WHAT mlx5_0|rxe0 NUMBER UNIT".

netdev=$(grep -l 52:54:00:00:02:0$GUEST /sys/class/net/*/address | cut -d/ -f5)
modprobe rdma_rxe
rdma link add rxe0 type rxe netdev "$netdev"

# gid DEVICE: the index of the RoCE v2 GID of an IPv4 address.
gid() {
  for _ in $(seq 100); do
    local index=$(ibv_devinfo -v -d "$1" | sed -n 's/.*GID\[ *\([0-9]*\)\].*::ffff:.*RoCE v2.*/\1/p' | head -n 1)
    [ -n "$index" ] && break
    sleep 0.1
  done
  echo "$index"
}

# compare WHAT COLUMN UNIT COMMAND: a column of the last line that perftest prints, on both.
compare() {
  for DEVICE in mlx5_0 rxe0; do
    GID=$(gid $DEVICE)
    pair "$1_$DEVICE" "$4 -F -x GID"
    local said=/tmp/client
    [ "$GUEST" = 1 ] && said=/tmp/server
    echo "speed $1 $DEVICE $(grep '^ [0-9]' $said | tail -n 1 | awk "{print \$$2}") $3"
  done
}

. ./roce_net.sh

compare bandwidth_write_64k 4 MiB/s 'ib_write_bw -s 65536 -n 1000'
compare bandwidth_send_64k 4 MiB/s 'ib_send_bw -s 65536 -n 1000'
compare bandwidth_read_64k 4 MiB/s 'ib_read_bw -s 65536 -n 1000'
compare messages_write_64 5 M/s 'ib_write_bw -s 64 -n 5000'
compare messages_send_64 5 M/s 'ib_send_bw -s 64 -n 5000'
compare latency_write_64 6 us 'ib_write_lat -s 64 -n 200'
compare latency_send_64 6 us 'ib_send_lat -s 64 -n 200'
compare latency_read_64 6 us 'ib_read_lat -s 64 -n 200'

# Without its driver anybody may map the card's registers.
card=$(readlink -f /sys/class/infiniband/mlx5_0/device)
modprobe -r rdma_ucm ib_umad mlx5_ib && modprobe -r mlx5_core
echo 1 >"$card/enable"
python3 - "$card/resource0" <<'PYTHON'
import ctypes, mmap, os, sys, time

bar = mmap.mmap(os.open(sys.argv[1], os.O_RDWR | os.O_SYNC), 4096, offset=0)
register = ctypes.c_uint32.from_buffer(bar, 0)
start = time.perf_counter()
for _ in range(2000):
    register.value
print(f"speed mmio_read mlx5_0 {(time.perf_counter() - start) / 2000 * 1e6:.1f} us")
PYTHON
