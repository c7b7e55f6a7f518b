-- Takes the turn to relay. Whoever had it must not have given a sign of life since ($3 and $4: its epoch and its beat; null when nobody had it).
with taken as (
    update seriatim.relay_lease l set epoch = greatest(l.epoch, r.epoch) + 1, holder = $1, pid = $2, beat = 0
    from seriatim.relay r where l.epoch = $3 and l.beat = $4
    returning l.epoch
), first as (
    insert into seriatim.relay_lease (epoch, holder, pid)
    select r.epoch + 1, $1, $2 from seriatim.relay r where $3::bigint is null
    on conflict (one) do nothing
    returning epoch
)
select epoch from taken union all select epoch from first
