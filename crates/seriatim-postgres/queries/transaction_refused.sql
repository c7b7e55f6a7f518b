-- Why a checkpoint in a handler's transaction did not happen: the lease's epoch now, and whether the transaction is still the one
-- that was marked.
select (select epoch from seriatim.lease where feed = $1 and partition = $2),
    coalesce(current_setting('seriatim_handler.transaction', true) = $3, false)
