# Sourced by the RoCE jobs: gives the cards addresses, and in one guest a network namespace each, so that their traffic
# leaves the guest. In two guests the cards have 10.0.0.1 and 10.0.0.2 too.

# configure NETDEV NUMBER [NAMESPACE]
configure() {
  local in=${3:+ip netns exec $3}
  $in ip address add "10.0.0.$2/24" dev "$1"
  $in ip link set lo up
  $in ip link set "$1" up
}

if [ -z "$PEER" ]; then
  rdma system set netns exclusive
  for n in 0 1; do
    ip netns add "ns$n"
    netdev=$(ls "/sys/class/infiniband/mlx5_$n/device/net")
    ip link set "$netdev" netns "ns$n"
    rdma dev set "mlx5_$n" netns "ns$n"
    configure "$netdev" $((n + 1)) "ns$n"
  done
  SERVER='ip netns exec ns0'
  CLIENT='ip netns exec ns1'
  ADDRESS=10.0.0.1
else
  configure "$(ls /sys/class/infiniband/mlx5_0/device/net)" "$GUEST"
fi

# Waits until the GID table holds the RoCE v2 entry of the IPv4 address, which the tests name by its index.
GID=3
for _ in $(seq 100); do
  $SERVER ibv_devinfo -v -d mlx5_0 | grep -q "GID\[  $GID\].*::ffff:10.0.0.*v2" && break
  sleep 0.1
done
