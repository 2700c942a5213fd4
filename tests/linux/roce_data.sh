# Data and errors over RoCE v2, between link-local addresses: their MAC stands in the GID.

for n in 0 1; do
  ip link set "$(ls /sys/class/infiniband/mlx5_$n/device/net)" up
done
for _ in $(seq 100); do
  [ "$(ibv_devinfo | grep -c PORT_ACTIVE)" = 2 ] && break
  sleep 0.1
done
CARDS='mlx5_0 mlx5_1 1'
. ./data.sh
