-- A fingerprint of who owns what and who asked for what: the same as long as no lease changes hands and nobody asks.
select total(epoch) + total(asked), count(owner), count(hand_over_to),
    (select group_concat(session) from seriatim_host)
from seriatim_lease
