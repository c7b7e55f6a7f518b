-- What a plan looks like when nothing but an index will do.
set local enable_seqscan = off;
set local enable_sort = off;
set local enable_bitmapscan = off;
