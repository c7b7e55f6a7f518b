-- Nobody may go on, for this reason.
update seriatim.relay set fault = $2 where epoch = $1 and fault is null
