-- Moves the position of a lease in a handler's transaction, if this session and epoch still own it and the transaction is the
-- one that was marked. Who takes the lease from now on waits until the transaction ends.
update seriatim.lease
set position = $5, done_above = null, version = version + 1
where feed = $1 and partition = $2 and session = $3 and epoch = $4
    and current_setting('seriatim_handler.transaction', true) = $6
