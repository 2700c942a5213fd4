# Memory registered by UMR (`hca_model --umr`): the keys come out of Linux's cache, and go back into it.

alone umr_writes 'python3 data.py rc_write rc_read many'
alone umr_large 'python3 data.py large'
alone umr_rereg 'python3 data.py rereg'
alone umr_atomics 'python3 data.py atomics'
alone umr_srq 'python3 data.py srq'
alone umr_deregistered 'python3 errors.py deregistered other_protection_domain write_not_allowed'
alone umr_perftest 'ib_write_bw -d mlx5_0 -n 100 -F >/dev/null & until ss -Hltn "sport = :18515" | grep -q .; do sleep 0.1; done; ib_write_bw -d mlx5_1 -n 100 -F localhost && wait $!'
