-- Whether this session and epoch own a lease, before a handler begins; $5 marks the transaction, so that one that the handler
-- ends is noticed, and $6 (milliseconds) bounds what a host that hangs can hold up.
select epoch, session is not distinct from $3 and epoch = $4, set_config('seriatim_handler.transaction', $5, true),
    set_config('statement_timeout', $6, true), set_config('idle_in_transaction_session_timeout', $6, true)
from seriatim.lease
where feed = $1 and partition = $2
