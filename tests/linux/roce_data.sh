# Data and errors over RoCE v2.

. ./roce_up.sh
. ./data.sh
