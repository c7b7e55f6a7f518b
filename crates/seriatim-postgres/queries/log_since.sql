-- A template: the first place of something that changed at $1 (microseconds) or later.
select min(p.modified_seq_id) from {places} p
where not p.listed and p.modified_at >= to_timestamp(0) + $1 * interval '1 microsecond'
