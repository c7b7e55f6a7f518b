-- What the slowest consumer of a capture has consumed.
select min(consumed) from seriatim_consumer where capture = ?1
