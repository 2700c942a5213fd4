# The HAL on vfio-pci with a function that copies memory by DMA: QEMU's educational device.
. ./vfio_lib.sh

export edu=$(basename "$(dirname "$(grep -l 0x11e8 /sys/bus/pci/devices/*/device)")")
export limit=/sys/module/vfio_iommu_type1/parameters/dma_entry_limit

alone bind 'bind $edu'
alone conformance './vfio_hal $edu | tee /tmp/conformance && grep "ok: a device reads and writes DMA memory" /tmp/conformance'
alone unmapped './vfio_hal $edu unmapped && dmesg | grep "DMAR.*DMA Write.*PTE Write access is not set"'
alone mappings_default '[ "$(cat $limit)" = 65535 ]'
alone mappings 'echo 100 >$limit; ./vfio_hal $edu mappings 100; status=$?; echo 65535 >$limit; exit $status'
alone memlock 'chown 1000 /dev/vfio/$(group $edu); ulimit -l 4096; $AS_USER ./vfio_hal $edu memlock 4194304'
alone hugepages 'sysctl -w vm.nr_hugepages=4; ./vfio_hal $edu hugepages'
alone conformance_hugepages './vfio_hal $edu'
