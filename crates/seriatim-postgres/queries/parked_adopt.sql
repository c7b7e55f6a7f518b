-- Makes parked objects those of a partition ($2), if this session ($3) and epoch ($4) own its lease. Returns whether they do.
with mine as materialized (
    select 1 from seriatim.lease where feed = $1 and partition = $2 and session = $3 and epoch = $4
), adopted as (
    update seriatim.parked
    set partition = $2
    where feed = $1 and sha256(object) = any (select sha256(o) from unnest($5::bytea[]) o) and exists (select 1 from mine)
)
select exists (select 1 from mine)
