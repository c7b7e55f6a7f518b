-- Of objects of which changes were taken out: one of which nothing is left is gone; the others begin with another change now, of
-- which no attempts are counted.
with done as materialized (
    select seq, attempts, exists (select 1 from seriatim.parked_change where parked = parked.seq) as waits
    from seriatim.parked
    where feed = $1 and sha256(object) in (select sha256(done.object) from unnest($2::bytea[]) done (object))
), gone as (
    delete from seriatim.parked where seq in (select seq from done where not waits)
)
update seriatim.parked set attempts = 0 where seq in (select seq from done where waits and attempts <> 0)
