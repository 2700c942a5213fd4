# Over RoCE v2.

. ./roce_up.sh
. ./wire.sh
