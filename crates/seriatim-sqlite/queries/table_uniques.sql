-- The unique indexes of a table with their columns; cid is negative for an expression.
select l.seq, l.origin, l.partial, x.cid, x.coll, l.name
from pragma_index_list(?1) as l join pragma_index_xinfo(l.name) as x
where l."unique" = 1 and x.key = 1
order by l.seq, x.seqno
