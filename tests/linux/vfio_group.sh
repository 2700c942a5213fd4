# One card with two functions, which nothing keeps apart: one IOMMU group.
. ./vfio_lib.sh

export one=$(card 1) two=$(card 2)
modprobe vfio-pci

alone one_group '[ "$(group $one)" = "$(group $two)" ]'
alone shared 'modprobe mlx5_core; bind $one; says $one "$one shares IOMMU group $(group $one) with $two (bound to mlx5_core)"'
alone shared_by_the_program '! ./devinfo -d $one 2>/tmp/error && grep "shares IOMMU group" /tmp/error'
alone cleared 'bind $two && ./preflight $one && ./devinfo -d $one'
