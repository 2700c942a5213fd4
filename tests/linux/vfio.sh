# Two cards in one guest: every mistake that preflight knows and one guest can make, each cleared away by what it says;
# then traffic as an ordinary user, and traffic that is killed.
. ./vfio_lib.sh

export one=$(card 1) two=$(card 2)
export group_one=/dev/vfio/$(group "$one") group_two=/dev/vfio/$(group "$two")

alone no_such_function 'says 0000:77:00.0 "no PCI function 0000:77:00.0"'
alone no_hca 'says 0000:00:00.0 "0000:00:00.0 is 8086:29c0, a ConnectX-4 or later or a BlueField was expected" && ! grep -q unbind /tmp/said'
alone no_module 'says $one "has no driver vfio-pci loaded" "modprobe vfio-pci"'
alone not_bound 'modprobe vfio-pci; says $one "$one is bound to no driver" && [ -n "$(advice)" ]'
alone bound_to_mlx5 'modprobe mlx5_core; [ "$(driver $one)" = mlx5_core ] && says $one "$one is bound to mlx5_core" "Unlike with DPDK"'
alone error_of_the_program 'says $one "bound to mlx5_core"; ! ./rc_pingpong -d $one 2>/tmp/error && grep -F "$(advice)" /tmp/error'
alone advice_rebinds 'says $one "bound to mlx5_core"; eval "$(advice)"; [ "$(driver $one)" = vfio-pci ] && ./preflight $one'
alone second_card 'bind $two && ./preflight $two && modprobe -r mlx5_core'
alone devices '[ "$(./devices | grep -c "15b3:1017  vfio-pci .*ConnectX-5")" = 2 ]'

alone no_node 'mv $group_one /dev/vfio/away; says $one "there is no $group_one"; status=$?; mv /dev/vfio/away $group_one; exit $status'
alone not_permitted 'rm /tmp/said; $AS_USER bash -c "says $one \"may not read and write $group_one\""'
alone advice_permits 'command=$(advice); eval "${command//USER/1000}"; chown 1000 $group_two; $AS_USER ./preflight $one'
alone memlock 'ulimit -l 1024; rm /tmp/said; $AS_USER bash -c "says $one \"may lock 1048576 bytes\""'
alone memlock_of_the_program 'ulimit -l 1024; ! $AS_USER ./devinfo -d $one 2>/tmp/error; cat /tmp/error; grep -q "limit on locked memory (1048576 bytes)" /tmp/error'
alone hint_of_huge_pages './preflight $one | grep "no huge pages"; sysctl -w vm.nr_hugepages=32; ! ./preflight $one | grep "no huge pages"'
alone devinfo_as_user '$AS_USER ./devinfo -d $one | grep "PORT_ACTIVE"'

# between COMMAND: both cards of this guest, as an ordinary user. The server's status counts, too.
between() {
  $AS_USER "$@" -d "$one" >/tmp/server 2>&1 &
  local server=$!
  listening 18515
  $AS_USER "$@" -d "$two" localhost && wait $server || { cat /tmp/server; return 1; }
}
export -f between listening

alone rc_as_user 'between ./rc_pingpong -c -n 200'
alone ud_as_user 'between ./ud_pingpong -c -n 200'

# Both ends are killed while messages pass; then everything is as if nothing had been.
killed() {
  $AS_USER ./rc_pingpong -d "$one" -n 100000000 >/tmp/server 2>&1 &
  local server=$!
  listening 18515
  $AS_USER ./rc_pingpong -d "$two" -n 100000000 localhost >/tmp/client 2>&1 &
  local client=$!
  until grep -q remote /tmp/client; do sleep 0.05; done
  ./preflight "$one" | grep -F "$group_one is open already" || return 1
  kill -9 $client $server
  wait $client $server
  between ./rc_pingpong -c -n 200
}
export -f killed

alone killed_1 killed
alone killed_2 killed
alone killed_3 killed

alone hal_conformance './vfio_hal $two'
# The way back, as docs/vfio.md has it.
given_back() {
  echo >"/sys/bus/pci/devices/$one/driver_override"
  echo "$one" >/sys/bus/pci/drivers/vfio-pci/unbind
  modprobe -a mlx5_ib ib_uverbs
  echo "$one" >/sys/bus/pci/drivers_probe
  until ibv_devinfo | grep PORT_ACTIVE; do sleep 0.1; done
}
export -f given_back
alone given_back given_back
