-- A relay appends: nobody else does until the transaction ends. No row when it is not the relay any more.
select committed::text, passed::text from seriatim.relay where epoch = $1 and fault is null for update
