# The judge judged: a bit of every packet's data flips behind the back of all checksums, and data.py has to see it.

alone damage_of_rc_send_is_seen 'python3 data.py rc_send 2>&1 | grep "bytes differ"'
alone damage_of_rc_send_imm_is_seen 'python3 data.py rc_send_imm 2>&1 | grep "bytes differ"'
alone damage_of_rc_send_inline_is_seen 'python3 data.py rc_send_inline 2>&1 | grep "bytes differ"'
alone damage_of_rc_write_is_seen 'python3 data.py rc_write 2>&1 | grep "bytes differ"'
alone damage_of_rc_write_imm_is_seen 'python3 data.py rc_write_imm 2>&1 | grep "bytes differ"'
alone damage_of_rc_read_is_seen 'python3 data.py rc_read 2>&1 | grep "bytes differ"'
alone damage_of_uc_send_is_seen 'python3 data.py uc_send 2>&1 | grep "bytes differ"'
alone damage_of_uc_write_is_seen 'python3 data.py uc_write 2>&1 | grep "bytes differ"'
alone damage_of_many_is_seen 'python3 data.py many 2>&1 | grep "bytes differ"'
alone damage_of_ud_send_is_seen 'python3 data.py ud_send 2>&1 | grep "bytes differ"'
alone damage_of_srq_is_seen 'python3 data.py srq 2>&1 | grep "bytes differ"'
alone damage_of_xrc_is_seen 'python3 data.py xrc 2>&1 | grep "bytes differ"'
