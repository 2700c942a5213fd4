# A guest without an IOMMU. (Debian's kernels are built without VFIO's no-IOMMU mode.)
. ./vfio_lib.sh

export one=$(card)

alone no_iommu 'says $one "$one is in no IOMMU group" "intel_iommu=on"'
alone no_iommu_no_binding '! bind $one && says $one "$one is in no IOMMU group"'
alone no_iommu_by_the_program '! ./devinfo -d $one 2>/tmp/error; cat /tmp/error; grep "is in no IOMMU group" /tmp/error'
