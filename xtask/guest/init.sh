#!/bin/bash
# The first process of a guest's root: sets the system up, runs the job that came as the second drive, powers off.
# The kernel's console is ttyS0; what the job prints goes to ttyS1, and the last line there is its exit status.
# Guests start their jobs together and power off together: each tells that it is there, and waits for a line.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts
mount -t devpts pts /dev/pts
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mount -t debugfs debug /sys/kernel/debug 2>/dev/null
ulimit -l unlimited

stty -F /dev/ttyS1 raw -echo
exec >/dev/ttyS1 2>&1 </dev/null

mkdir /run/job
tar -xf /dev/vdb -C /run/job
cd /run/job
. ./environment
ip link set lo up
for module in $MODULES; do modprobe "$module" || echo "guest: no module $module"; done
# The network between guests, in its documentation address block.
if [ -n "$PEER" ]; then
  modprobe virtio_net
  i=0
  while [ ! -e /sys/class/net/eth0 ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
  # The cards may own eth0; ours is the one on virtio.
  for link in /sys/class/net/*; do
    case $(readlink -f "$link/device/driver") in
    */virtio_net)
      ip address add "192.0.2.$GUEST/24" dev "${link##*/}"
      ip link set "${link##*/}" up
      ;;
    esac
  done
fi
echo "guest: ready"
read -r _ </dev/ttyS1
bash ./job
echo "guest: exit $?"
read -r _ </dev/ttyS1
sync
echo o >/proc/sysrq-trigger
# The root's drive is gone already: nothing more can be started.
read -r _ </dev/ttyS1
