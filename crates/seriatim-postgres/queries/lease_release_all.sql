-- Sets all leases of a session free; their positions stay.
update seriatim.lease set owner = null, session = null, version = version + 1 where session = $1
