#!/bin/busybox sh
# The first process in the initramfs: mounts the root from the first drive, with memory above it, and goes there.
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
while read -r module; do /bin/busybox insmod "/modules/$module"; done </modules/order
i=0
while [ ! -b /dev/vda ] && [ $i -lt 300 ]; do
  /bin/busybox sleep 0.1
  i=$((i + 1))
done
/bin/busybox mount -t squashfs /dev/vda /lower
/bin/busybox mount -t tmpfs memory /upper
/bin/busybox mkdir /upper/files /upper/work
/bin/busybox mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work root /root
exec /bin/busybox switch_root /root /guest-init
