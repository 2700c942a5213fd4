# Ethernet: what mlx5e's queues, flow tables and offloads have to do between two cards of a guest.

. ./roce_net.sh

export SERVER CLIENT
export S=$($SERVER ls /sys/class/net | grep -v lo) C=$($CLIENT ls /sys/class/net | grep -v lo)

# counter NETDEV'S-SIDE NETDEV NAME: a counter of ethtool -S.
counter() { $1 ethtool -S "$2" | awk -v name="$3:" '$1 == name { print $2 }'; }

# tcp ADDRESS PORT [CONNECTIONS]: bytes from client to server, compared.
tcp() {
  $SERVER python3 tcp.py server "$1" "$2" "${3:-1}" &
  for _ in $(seq 200); do
    [ -n "$($SERVER ss -Hltn "sport = :$2")" ] && break
    sleep 0.05
  done
  $CLIENT python3 tcp.py client "$1" "$2" "${3:-1}" && wait $!
}

# lost ADDRESS: nobody answers.
lost() { ! $CLIENT ping -c "${2:-2}" -i 0.2 -W 1 "$1"; }

# mtu BYTES BYTES: of server and client.
mtu() { $SERVER ip link set "$S" mtu "$1" && $CLIENT ip link set "$C" mtu "$2"; }

# raw TOOL ARGUMENTS: perftest's raw packet QPs; the MAC addresses are all they know of each other.
raw() {
  local s=$($SERVER cat "/sys/class/net/$S/address") c=$($CLIENT cat "/sys/class/net/$C/address")
  timeout 60 $SERVER "$@" -F -d mlx5_0 --server -E "$c" -B "$s" &
  for _ in $(seq 100); do
    $SERVER rdma resource show qp | grep -q RAW_PACKET && break
    sleep 0.1
  done
  timeout 60 $CLIENT "$@" -F -d mlx5_1 --client -B "$c" -E "$s" && wait $!
}

# udp SECONDS PORT COUNT CLIENT ARGUMENTS: the client's datagrams reach the server.
udp() {
  $SERVER python3 udp.py "$1" server 10.0.0.1 "$2" "$3" &
  for _ in $(seq 200); do
    [ -n "$($SERVER ss -Hlun "sport = :$2")" ] && break
    sleep 0.05
  done
  $CLIENT python3 udp.py 0 client 10.0.0.1 "$2" "${@:4}" && wait $!
}

# roce_off: switches RoCE of the server's card off; its new netdev stands outside of all namespaces.
roce_off() {
  local device=$($SERVER readlink -f "/sys/class/net/$S/device")
  device=pci/${device##*/}
  devlink dev param set "$device" name enable_roce value false cmode driverinit && devlink dev reload "$device"
}
export -f counter tcp lost mtu raw udp roce_off

alone ping '$CLIENT ping -c 3 -i 0.2 10.0.0.1'
alone tcp 'tcp 10.0.0.1 5001'
alone tcp_was_cut '[ "$(counter "$CLIENT" $C tx_tso_packets)" -gt 0 ]'
alone tcp_checksums '[ "$(counter "$SERVER" $S rx_csum_complete)" -gt 1000 ]'
alone tcp_ipv6 '$SERVER ip address add fd00::1/64 dev $S nodad && $CLIENT ip address add fd00::2/64 dev $C nodad && tcp fd00::1 5002'
alone tcp_without_offloads '$CLIENT ethtool -K $C tso off tx off && $SERVER ethtool -K $S rx off && tcp 10.0.0.1 5003; s=$?
  $CLIENT ethtool -K $C tso on tx on && $SERVER ethtool -K $S rx on && exit $s'
alone loopback 'for card in "$SERVER ethtool -t $S" "$CLIENT ethtool -t $C"; do $card || exit 1; done'

alone vlan 'for end in "$SERVER|$S|1" "$CLIENT|$C|2"; do
    IFS="|" read -r in dev n <<<"$end"
    $in ip link add link $dev name v5 type vlan id 5 && $in ip address add 10.5.0.$n/24 dev v5 && $in ip link set v5 up
  done; $CLIENT ping -c 2 -i 0.2 10.5.0.1'
alone vlan_tags_taken_off '[ "$(counter "$SERVER" $S rx_removed_vlan_packets)" -gt 0 ]'
alone vlan_tags_left_on '$SERVER ethtool -K $S rxvlan off && $CLIENT ping -c 2 -i 0.2 10.5.0.1; s=$?; $SERVER ethtool -K $S rxvlan on && exit $s'
alone vlan_filter '$SERVER ip link delete v5 && lost 10.5.0.1'

alone mtu_9000 'mtu 9000 9000 && $CLIENT ping -c 2 -i 0.2 -M do -s 8972 10.0.0.1 && tcp 10.0.0.1 5004'
alone too_long_for_the_port 'mtu 1500 9000 && ! $CLIENT ping -c 1 -W 1 -M do -s 8972 10.0.0.1 && mtu 1500 1500 &&
  [ "$(counter "$SERVER" $S rx_oversize_pkts_phy)" -gt 0 ]'

alone other_address '$CLIENT ip neighbour replace 10.0.0.99 lladdr 02:00:c9:00:00:99 dev $C
  before=$(counter "$SERVER" $S rx_packets); lost 10.0.0.99 10 && [ "$(counter "$SERVER" $S rx_packets)" -lt $((before + 10)) ]'
alone promiscuous '$SERVER ip link set $S promisc on
  before=$(counter "$SERVER" $S rx_packets); lost 10.0.0.99; $SERVER ip link set $S promisc off
  [ "$(counter "$SERVER" $S rx_packets)" -ge $((before + 2)) ]'
alone new_address '$SERVER ip link set $S address 02:00:c9:00:00:aa && $CLIENT ip neighbour flush dev $C && $CLIENT ping -c 2 10.0.0.1'
alone multicast '$CLIENT ping -c 2 -I $C ff02::1'
alone down_and_up 'for _ in 1 2 3; do $CLIENT ip link set $C down && $CLIENT ip link set $C up; done; $CLIENT ping -c 3 10.0.0.1'

alone spread 'tcp 10.0.0.1 5105 16 && [ "$(counter "$SERVER" $S rx0_packets)" -gt 500 ] && [ "$(counter "$SERVER" $S rx1_packets)" -gt 500 ]'
alone spread_to_one '$SERVER ethtool -X $S weight 0 1 && before=$(counter "$SERVER" $S rx0_packets) && tcp 10.0.0.1 5006 &&
  [ "$(counter "$SERVER" $S rx0_packets)" -lt $((before + 50)) ]'
alone spread_by_xor '$SERVER ethtool -X $S equal 2 && $SERVER ethtool -X $S hfunc xor && r0=$(counter "$SERVER" $S rx0_packets) &&
  r1=$(counter "$SERVER" $S rx1_packets) && tcp 10.0.0.1 5209 4 &&
  [ "$(counter "$SERVER" $S rx0_packets)" -gt $((r0 + 500)) ] && [ "$(counter "$SERVER" $S rx1_packets)" -gt $((r1 + 500)) ]'
alone udp_was_cut 'before=$(counter "$CLIENT" $C tx_tso_packets) && udp 10 5008 5 5000 1000 &&
  [ "$(counter "$CLIENT" $C tx_tso_packets)" -gt "$before" ]'
alone rule_to_a_queue '$SERVER ethtool -K $S ntuple on && $SERVER ethtool -N $S flow-type tcp4 dst-port 5007 action 0 &&
  before=$(counter "$SERVER" $S rx0_packets) && tcp 10.0.0.1 5007 && [ "$(counter "$SERVER" $S rx0_packets)" -gt $((before + 500)) ]'
alone rule_that_drops '$SERVER ethtool -N $S flow-type ip4 src-ip 10.0.0.2 l4proto 1 action -1 && lost 10.0.0.1'
alone rule_deleted '$SERVER ethtool -n $S | grep -o "Filter: [0-9]*" | while read -r _ n; do $SERVER ethtool -N $S delete $n; done
  $CLIENT ping -c 2 10.0.0.1'

alone raw_packet_bandwidth 'raw raw_ethernet_bw -n 200 -s 1024'
alone raw_packet_latency 'raw raw_ethernet_lat -n 50 -s 512'
alone port_counters '$SERVER cat /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error'
alone queue_counters '$CLIENT bash -c "cat /sys/class/infiniband/mlx5_1/ports/1/hw_counters/out_of_buffer"'

alone roce_takes_its_port '! udp 2 4791 1 100'
alone roce_off 'roce_off && S=$(ls /sys/class/net | grep -v lo) && SERVER= && ip address add 10.0.0.1/24 dev $S &&
  ip link set $S up && $CLIENT ip neighbour flush dev $C && $CLIENT ping -c 1 -w 60 10.0.0.1 && udp 10 4791 1 100'
