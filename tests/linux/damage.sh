# Every payload on the link is damaged where no checksum notices: whoever judges data has to see it.

alone damage_of_send_is_seen 'python3 data.py send; [ $? = 1 ]'
alone damage_of_write_is_seen 'python3 data.py write; [ $? = 1 ]'
alone damage_of_read_is_seen 'python3 data.py read; [ $? = 1 ]'
alone damage_of_ud_is_seen 'python3 data.py ud; [ $? = 1 ]'
