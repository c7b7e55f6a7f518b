-- Gives a lease that is as it was seen ($5 epoch, $6 session, $7 version) to a session that holds its host's name, under the next epoch.
-- The second part is the repetition of a call whose answer was lost.
with me as materialized (
    select 1 from seriatim.host where name = $3 and session = $4 for share
), taken as (
    update seriatim.lease
    set owner = $3, session = $4, epoch = epoch + 1, version = version + 1, hand_over_to = null
    where feed = $1 and partition = $2 and epoch = $5 and session is not distinct from $6
        and version = $7 and exists (select 1 from me)
    returning epoch, position
)
select epoch, position from taken
union all
select epoch, position from seriatim.lease
where feed = $1 and partition = $2 and epoch = $5 + 1 and session = $4
    and exists (select 1 from me) and not exists (select 1 from taken)
