-- Whether a lease is as a rewind of it as it was seen would have left it: then this is the repetition of a lost answer.
select exists (
    select 1 from seriatim.lease
    where feed = $1 and partition = $2 and epoch = $3::bigint + 1 and session is null and position = $4
)
