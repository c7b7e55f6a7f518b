-- Forgets all discards but the last thousand.
delete from seriatim_queue_discarded where queue = ?1 and seq <= (
    select seq from seriatim_queue_discarded where queue = ?1 order by seq desc limit 1 offset 1000
)
